"""Committed claims become instances."""
