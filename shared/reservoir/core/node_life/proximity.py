"""How near nodes are to each other, by the network nodes that EC2 shows above them."""

from collections.abc import Mapping

from reservoir.core.scheduling_terms.labels import (
    NETWORK_NODE_LAYERS,
    ULTRA_SERVER_ID,
    ZONE_ID,
)

# From the top. What is in one UltraServer is under one network node in every layer.
_LEVELS = (ZONE_ID, *NETWORK_NODE_LAYERS, ULTRA_SERVER_ID)
# A node's labels by level; None if EC2 shows none.
WayDown = tuple[str | None, ...]


def way_down(labels: Mapping[str, str]) -> WayDown:
    """Return where a node with these labels is, from the top of the network."""
    return tuple(labels.get(level) for level in _LEVELS)


def hops(one: WayDown, other: WayDown) -> int:
    """Return how many hops are between two nodes: up to the lowest level that both share, and down again.

    What is not known is shared with nobody.
    """
    shared = 0
    for here, there in zip(one, other, strict=True):
        if here is None or here != there:
            break
        shared += 1
    return 2 * (len(one) - shared)
