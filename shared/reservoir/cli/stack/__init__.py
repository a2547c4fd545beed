"""The deployed stack as the command line sees it: found, connected to, spoken to."""
