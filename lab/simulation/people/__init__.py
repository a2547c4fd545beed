"""Who acts on the simulated account: users, teams, agents on nodes, operators, and outsiders."""
