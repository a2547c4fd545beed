"""Keeps what happens, and tells of it."""
