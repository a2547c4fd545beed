"""The disrupt function."""

from functools import cache

from shared.runtime.composition.draining import draining
from shared.runtime.composition.outside import adapters
from shared.runtime.composition.planning import snapshot_gatherer, solve
from shared.runtime.composition.safety import envelope
from shared.usecases.disruption.disrupt import Disrupt
from shared.usecases.disruption.move_units import MoveUnits
from shared.usecases.disruption.replace_nodes import ReplaceNodes


@cache
def disrupt() -> Disrupt:
    """Return the pass of voluntary disruption."""
    outside = adapters()
    return Disrupt(
        gatherer=snapshot_gatherer(),
        claims=outside.node_claims,
        replacing=ReplaceNodes(outside.node_claims, draining(), outside.publisher, outside.queue),
        envelope=envelope(),
        moving=MoveUnits(outside.node_claims, outside.unit_mover, outside.shortage_history, outside.ids),
        decisions=outside.decisions,
        ids=outside.ids,
        clock=outside.clock,
        policy=outside.settings.scheduling,
        solve=solve,
    )
