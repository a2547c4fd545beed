"""Planners that share one ledger, and the world around them, for its bench."""
