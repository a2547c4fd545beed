"""Gather, decide, apply: one module a verb, against ports only."""
