"""Nodes that are ended by choice: chosen, replaced, handed over."""
