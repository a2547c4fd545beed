"""What the account holds: reservations and offerings, read on schedules and on events."""
