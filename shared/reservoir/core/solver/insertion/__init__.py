"""Placing replica by replica under every constraint, and improving the result the same way."""
