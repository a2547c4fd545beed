"""The door of the embedded AWS: TLS, HTTP, and a thread for each service behind it."""
