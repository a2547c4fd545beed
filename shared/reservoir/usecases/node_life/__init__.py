"""Nodes from their launch to their end: events, sweeps and failures."""
