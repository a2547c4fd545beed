"""What is told of the time to come: which units to reserve, and when work starts."""
