"""What a command of disruption saves, by today's prices, and whether that is enough (docs/disruption.md)."""
