"""Work is asked to leave before its node ends."""
