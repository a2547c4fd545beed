"""Lambda for Python functions: environments and their processes, concurrency, asynchronous events."""
