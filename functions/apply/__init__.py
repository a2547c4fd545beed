"""The apply function."""
