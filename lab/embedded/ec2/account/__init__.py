"""The state of an account and its regions: what exists, what is due, what is told."""
