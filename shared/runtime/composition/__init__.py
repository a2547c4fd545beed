"""The composition root: use cases with their adapters, made once a process, at the first call.

One module a function, so that a cold start imports what this function runs and nothing else.
"""
