"""Why replicas have no place: read from what the solver decided; nothing here decides anything."""
