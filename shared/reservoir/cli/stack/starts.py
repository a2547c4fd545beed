"""When waiting work will start, for commands that print it beside other answers.

If the history that this needs cannot be read, the command prints everything but the starts.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from reservoir.cli.stack.connection import Connection
from reservoir.core.model.snapshot import Snapshot
from reservoir.manifests.answers.explanations import StartEstimate
from reservoir.ports.errors import AwsError
from reservoir.ports.safety import UnreadableRowError
from reservoir.usecases.what_if.estimate_starts import EstimateStarts, start_described
from reservoir.usecases.what_if.plan_demand import Starts, StartsIn


def described_starts(
    stack: Connection, keys: Collection[str]
) -> Mapping[str, StartEstimate]:
    """Return when workloads start that wait."""
    if not keys:
        return {}
    try:
        starts = _question(stack).estimate(keys)
    except (AwsError, UnreadableRowError):
        return {}
    described = {key: start_described(each) for key, each in starts.items()}
    return {key: each for key, each in described.items() if each is not None}


def starts_within(stack: Connection) -> StartsIn:
    """Return the function that estimates when workloads of a world start."""
    question = _question(stack)

    def starts_in(world: Snapshot, keys: Collection[str], now: datetime) -> Starts:
        try:
            return question.in_world(world, keys, now)
        except (AwsError, UnreadableRowError):
            return {}

    return starts_in


def _question(stack: Connection) -> EstimateStarts:
    return EstimateStarts(
        stack.snapshots, stack.outside.history, stack.outside.clock, stack.solver
    )
