"""Small random worlds, and exhaustive search for the best that a plan could have been."""
