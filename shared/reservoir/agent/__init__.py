"""The program that runs on a node: it reads what the node is for, runs it, and reports the results."""
