"""Manifests from other systems' definitions of capacity: parts with a counterpart are converted, others are named."""
