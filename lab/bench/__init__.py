"""Measurements of the product: one module a bench, in rooms by what they measure (README.md)."""
