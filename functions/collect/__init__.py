"""The collect function."""
