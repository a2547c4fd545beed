"""The tables' ports in memory."""
