"""The plan while it is being made: nodes with their contents, the capacity left, and the options for new nodes."""
