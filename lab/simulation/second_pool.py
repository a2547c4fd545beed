"""A pool that shares nothing with the first one: a planner of its own plans for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab.simulation.catalogue import node_class_manifest, node_pool_manifest
from lab.simulation.people.users import ASIDE


def second_pool(disruption: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return a class that selects no reservation of the team, and its pool, which buys on demand."""
    pool = node_pool_manifest(ASIDE, ("on-demand",), disruption, {})
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = ASIDE
    return node_class_manifest(ASIDE, {"team": ASIDE}), pool
