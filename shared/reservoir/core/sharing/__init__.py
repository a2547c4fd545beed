"""Units of reservations shared out among teams: nominal quotas first, then weighted dominant shares."""
