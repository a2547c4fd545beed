"""A read-only page of the present state, served on this machine."""
