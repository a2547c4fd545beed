"""The discover_offerings function."""

from functools import cache

from shared.runtime.composition.outside import adapters
from shared.usecases.discovery.discover_offerings import DiscoverOfferings


@cache
def discover_offerings() -> DiscoverOfferings:
    """Return the discovery of instance types and prices."""
    outside = adapters()
    return DiscoverOfferings(outside.instance_types, outside.prices, outside.offerings, outside.queue)
