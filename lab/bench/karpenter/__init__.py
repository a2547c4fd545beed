"""Karpenter's scheduling loop, ported: the peer of our scheduler in the benches."""
