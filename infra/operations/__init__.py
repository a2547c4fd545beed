"""What people who run a deployment look at and are told, and what they may do."""
