"""What an instance sees of AWS from inside: its metadata, and credentials that say which instance it is."""
