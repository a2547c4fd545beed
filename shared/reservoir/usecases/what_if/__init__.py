"""Questions to the planner that change nothing: what would happen, and would it decide the same again."""
