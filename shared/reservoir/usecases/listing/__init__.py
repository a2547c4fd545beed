"""What there is, as rows that people and programs read."""
