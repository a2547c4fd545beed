"""What people and nodes run: the command line, the report's page, the agent."""
