"""The composition root: use cases with their ports' implementations, made once a process, at the first call.

One module a function, so that a cold start imports what this function runs and nothing else. Each wires its use case
(``…_from``) to any implementation: the process's adapters, or the fakes of tests.
"""
