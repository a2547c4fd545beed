"""The disrupt function."""

from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.runtime.composition.parts.lending import lend_units_from
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.composition.parts.planning import (
    snapshot_gatherer_from,
    solve_within,
)
from reservoir.runtime.composition.parts.safety import envelope_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.disruption.disrupt import Disrupt
from reservoir.usecases.disruption.move_units import MoveUnits
from reservoir.usecases.disruption.replace_nodes import ReplaceNodes
from reservoir.usecases.disruption.roll_out import RollOut
from reservoir.usecases.disruption.split_units import SplitUnits
from reservoir.usecases.provisioning.solver import Solve


@once
def disrupt() -> Disrupt:
    """Return the pass of voluntary disruption."""
    outside = process_outside()
    return disrupt_from(
        outside, solve_within(outside.settings.solve_budget, outside.monotonic_s)
    )


def disrupt_from(outside: Outside, solve: Solve) -> Disrupt:
    """Wire the pass of voluntary disruption."""
    draining = draining_from(outside)
    return Disrupt(
        gatherer=snapshot_gatherer_from(outside),
        claims=outside.node_claims,
        replacing=ReplaceNodes(
            outside.node_claims, draining, outside.publisher, outside.queue
        ),
        rolling=RollOut(outside.workloads, draining, outside.queue),
        envelope=envelope_from(outside),
        moving=MoveUnits(
            outside.node_claims, outside.unit_mover, outside.shortage_history, outside.ids
        ),
        splitting=SplitUnits(
            outside.node_claims,
            outside.unit_splitter,
            outside.unit_mover,
            outside.shortage_history,
            outside.ids,
            outside.settings.deployment,
        ),
        lending=lend_units_from(outside, outside.settings.scheduling, solve),
        decisions=outside.decisions,
        ids=outside.ids,
        clock=outside.clock,
        policy=outside.settings.scheduling,
        solve=solve,
        account_id=outside.settings.account_id,
    )
