"""What each function may do, and why."""
