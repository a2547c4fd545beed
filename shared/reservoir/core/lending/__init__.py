"""Lending idle units of own reservations as interruptible ones, and taking them back in time."""
