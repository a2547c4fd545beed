"""What a plan leaves over, and whether it may."""
