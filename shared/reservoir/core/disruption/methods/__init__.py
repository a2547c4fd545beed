"""Why nodes are given up: one module a reason, and the ways to replace what they carried."""
