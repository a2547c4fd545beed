"""The expire function."""
