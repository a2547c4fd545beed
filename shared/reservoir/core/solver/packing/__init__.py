"""Packing equal replicas by count: patterns, each what goes onto one node, are found greedily and used repeatedly."""
