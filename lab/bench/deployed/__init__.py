"""What the deployed stack does, all of it at work on the embedded AWS."""
