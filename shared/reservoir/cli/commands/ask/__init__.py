"""Questions that change nothing: what would happen, and was it decided rightly."""
