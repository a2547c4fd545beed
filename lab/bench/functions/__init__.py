"""What single functions cost: their start, their handling of events, their calls."""
