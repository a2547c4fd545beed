"""Mutation testing: whether a room's own tests notice that one step of its code was changed."""
