"""What happened: events, finished, logs."""
