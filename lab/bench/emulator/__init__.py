"""What the embedded AWS itself costs."""
