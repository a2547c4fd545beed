"""The react function."""
