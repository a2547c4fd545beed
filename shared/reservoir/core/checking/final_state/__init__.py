"""The state that a plan leads to, in facts that rules ask about."""
