"""Policy: apply, diff, delete, validate."""
