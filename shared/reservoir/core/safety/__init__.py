"""What keeps a fleet from being ended by mistake: bounds, the tally against them, marks on tables, evidence."""
