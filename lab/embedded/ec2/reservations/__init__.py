"""Capacity reservations, capacity blocks and interruptible allocations."""
