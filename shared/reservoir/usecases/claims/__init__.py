"""What every use case does to claims: moves between states, checkpoints, announcements."""
