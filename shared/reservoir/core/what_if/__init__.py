"""The world as it is not: edits of a snapshot, and what a plan made of it says about one demand."""
