"""What there is and why: get, explain."""
