"""Voluntary disruption: emptiness, drift, consolidation; decided with the same scheduler on an edited snapshot."""
