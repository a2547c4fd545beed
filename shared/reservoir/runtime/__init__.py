"""What only a running function has: its environment, Powertools, its clients."""
