"""The program that runs on a node: it learns what the node is for, runs it, and says what becomes of it."""
