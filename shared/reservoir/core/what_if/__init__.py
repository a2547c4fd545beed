"""A world with edits: edits of a snapshot, and what a plan for it means for one demand."""
