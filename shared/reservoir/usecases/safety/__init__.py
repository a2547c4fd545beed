"""Keeps a fleet from being ended by mistake. Each use case asks here before it ends something by its own choice."""
