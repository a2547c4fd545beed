"""The discover_reservations function."""
