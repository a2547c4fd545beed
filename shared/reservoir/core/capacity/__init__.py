"""What capacity may be promised: the ledger of reserved units, offerings, and what rests because it failed."""
