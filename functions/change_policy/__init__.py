"""The change_policy function."""
