"""A read-only page of how things are, served on this machine."""
