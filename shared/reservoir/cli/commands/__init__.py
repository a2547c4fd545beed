"""The commands, by what one wants of them. Each module has a ``register`` that adds its command to the application."""
