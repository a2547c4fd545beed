"""Snapshots and plans as JSON, and back."""
