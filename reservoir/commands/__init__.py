"""The commands; each module has a ``register`` that adds its command to the application."""
