"""Pending demand becomes a plan, and the plan a commit."""
