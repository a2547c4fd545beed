"""What instances have cost whom: written down as they run, read by budgets, reports and people."""
