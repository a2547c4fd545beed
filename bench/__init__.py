"""Measurements of the product: one module a bench, run as ``python -m bench [name]`` (README.md)."""
