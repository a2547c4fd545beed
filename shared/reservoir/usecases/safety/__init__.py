"""What keeps a fleet from being ended by mistake. Whoever is about to end something of our own choice asks here."""
