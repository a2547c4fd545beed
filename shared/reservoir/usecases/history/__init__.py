"""Keeps what happens, and shows it."""
