"""The parts of the checker, one a family of rules; nothing of the scheduler is used here."""
