"""What happens to a node after its launch: observations, notices, drains and early ends."""
