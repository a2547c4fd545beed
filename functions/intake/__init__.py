"""The intake function."""
