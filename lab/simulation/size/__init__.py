"""The pipeline at size: a fleet of thousands of nodes for weeks, without mishaps, and what that comes to."""
