"""Messages of senders become stored demand."""
