"""State services on this machine, and the tables that adapters find in them."""
