"""A pool of equal workers: keep so many, roll to a new template, scale by the depth of a queue."""

from integrations.worker_pool.worker_pool import Scale, WorkerPool

__all__ = ["Scale", "WorkerPool"]
