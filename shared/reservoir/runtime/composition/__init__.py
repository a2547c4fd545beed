"""The composition root: use cases with what is outside of them, made once a process, at the first call.

One module a function, so that a cold start imports what this function runs and nothing else. Each says how its use case
is wired (``…_from``), for whatever is outside: the process's adapters, or the fakes of tests.
"""
