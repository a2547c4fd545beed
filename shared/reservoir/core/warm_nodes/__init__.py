"""Warm nodes: booted ahead of demand in free reserved units, and free units to everybody."""
