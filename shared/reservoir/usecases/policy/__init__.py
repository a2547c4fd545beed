"""Pools and classes: applied, stored, shown, resolved against the account."""
