"""The problem that a solve decides: demand in groups, the options that can be launched, and rules between groups."""
