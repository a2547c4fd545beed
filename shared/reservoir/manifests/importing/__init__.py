"""Manifests out of what other systems call their capacity: what has a counterpart is taken, all else is named."""
