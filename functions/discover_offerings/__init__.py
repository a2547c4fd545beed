"""The discover_offerings function."""
