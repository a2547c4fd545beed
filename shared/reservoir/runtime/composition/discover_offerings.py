"""The discover_offerings function."""

from reservoir.runtime.composition.parts.outside import adapters, once
from reservoir.usecases.discovery.discover_offerings import DiscoverOfferings


@once
def discover_offerings() -> DiscoverOfferings:
    """Return the discovery of instance types and prices."""
    outside = adapters()
    return DiscoverOfferings(outside.instance_types, outside.prices, outside.offerings, outside.queue)
