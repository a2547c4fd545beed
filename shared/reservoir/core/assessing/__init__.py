"""What an account makes of its reservations, before anything is deployed."""
