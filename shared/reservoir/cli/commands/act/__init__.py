"""Commands that act on workloads and nodes."""
