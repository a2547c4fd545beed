"""Nouns that are listed by when they begin and end."""
