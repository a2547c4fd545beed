"""What instances have cost each team: recorded as they run, and read by budgets, reports and people."""
