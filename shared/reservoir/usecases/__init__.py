"""Gather, decide, apply: one module a verb, against ports only.

Ports may raise AwsError; it passes through every use case that does not say otherwise. A docstring that names
UnreadableRowsError without saying of what means rows that the use case was asked about, or claims that it moves.
"""
