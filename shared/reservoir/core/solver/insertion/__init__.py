"""Placing replicas one by one under every rule, and improving finished plans by moving replicas in the same way."""
