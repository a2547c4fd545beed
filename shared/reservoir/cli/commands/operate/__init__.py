"""The stack itself: its deployment, safety envelope and tables."""
