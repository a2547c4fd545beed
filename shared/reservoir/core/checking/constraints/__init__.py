"""Topology rules in the final state: spread, affinity, anti-affinity."""
