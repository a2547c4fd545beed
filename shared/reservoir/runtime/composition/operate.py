"""The operate function."""

from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.operating.authorise_operation import AuthoriseOperation
from reservoir.usecases.operating.lift_bounds import LiftBounds
from reservoir.usecases.operating.operate import Operate
from reservoir.usecases.operating.operate_nodes import OperateNodes
from reservoir.usecases.operating.pause_pools import PausePools
from reservoir.usecases.operating.reset_generations import ResetGenerations
from reservoir.usecases.safety.envelope import LiftEnvelope


@once
def operate() -> Operate:
    """Return what operators do by hand."""
    return operate_from(process_outside())


def operate_from(outside: Outside) -> Operate:
    """Wire it."""
    nodes = OperateNodes(outside.node_claims, draining_from(outside))
    return Operate(
        authorise=AuthoriseOperation(outside.policy, nodes.find),
        nodes=nodes,
        pools=PausePools(outside.policy, outside.queue),
        generations=ResetGenerations(outside.workloads),
        bounds=LiftBounds(LiftEnvelope(outside.tallies, outside.publisher)),
        publisher=outside.publisher,
        clock=outside.clock,
    )
