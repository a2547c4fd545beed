"""The operate function."""
