"""The discover_offerings function."""

from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.usecases.discovery.discover_offerings import DiscoverOfferings


@once
def discover_offerings() -> DiscoverOfferings:
    """Return the discovery of instance types and prices."""
    outside = process_outside()
    return DiscoverOfferings(
        outside.instance_types, outside.prices, outside.offerings, outside.queue
    )
