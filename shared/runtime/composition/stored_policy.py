"""Policy as launches and drains look at it."""

from functools import cache

from shared.runtime.composition.outside import adapters
from shared.usecases.policy.stored_policy import StoredPolicy


@cache
def stored_policy() -> StoredPolicy:
    """Return pools and classes as launches and drains look at them."""
    outside = adapters()
    return StoredPolicy(outside.policy, outside.clock)
