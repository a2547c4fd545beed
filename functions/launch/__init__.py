"""The launch function."""
