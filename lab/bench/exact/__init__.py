"""Benches that judge plans by programs of their own, which know nothing of the solver."""
