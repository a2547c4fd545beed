"""What to reserve: past demand played again with more, fewer and other units."""
