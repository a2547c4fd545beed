"""What has been decided so far: nodes with their contents, what capacity is left, and what could still be opened."""
