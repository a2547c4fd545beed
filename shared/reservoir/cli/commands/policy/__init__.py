"""What is wanted: apply, diff, delete, validate."""
