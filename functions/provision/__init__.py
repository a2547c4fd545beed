"""The provision function."""
