"""Packing equal replicas by count: patterns of what goes onto one node, found greedily and repeated."""
