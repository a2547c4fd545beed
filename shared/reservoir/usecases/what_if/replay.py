"""Run a stored decision again: is it the same to the byte, and what would another world have made of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.disruption.decision_ids import DECISION_PREFIX
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.serialisation.json_codec import CodecError, dumps, loads
from reservoir.core.serialisation.policy_json import policy_from_json
from reservoir.core.what_if.edits import WorldEdits, edited
from reservoir.core.what_if.outcome import DemandOutcome, outcome_of
from reservoir.ports.history import Decision, DecisionStore
from reservoir.usecases.provisioning.solver import Solve

EditsAt = Callable[[datetime], WorldEdits]


class ReplayError(ValueError):
    """The decision cannot be run again."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision that was planned again.

    ``replayed`` is None where it is the same to the byte, and nothing was edited. ``why`` gives the cause of a
    difference where nothing was edited, ``notes`` the assumptions.
    """

    plan_id: str
    made_at: datetime
    workloads: tuple[Workload, ...]
    pending: dict[str, int]
    stored: DemandOutcome
    replayed: DemandOutcome | None = None
    is_edited: bool = False
    why: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """Runs stored plans again. ``policy`` is the deployment's, for decisions that do not say how they were made."""

    decisions: DecisionStore
    solve: Solve
    policy: SchedulingPolicy

    def run(self, plan_id: str, edits_at: EditsAt) -> Replayed | None:
        """Run a plan again; None when it is not known (any more). ``edits_at`` makes the edits for its moment.

        Raises
        ------
        ReplayError
            It is no plan, or of a release whose plans this one cannot read.
        UnreadableRowsError
            The row of the decision cannot be read.
        EditError
            The edits name something that was not there.
        """
        found = self.decisions.load(plan_id)
        if found is None:
            return None
        decision, snapshot, plan = read_plan(*found)
        policy, notes = self._policy_of(decision)
        edits = edits_at(decision.made_at)
        world = edited(snapshot, edits, decision.made_at) if edits else None
        again = self.solve(
            snapshot if world is None else world.snapshot, decision.made_at, policy
        )
        keys = frozenset(item.workload.key for item in snapshot.demands)
        told = Replayed(
            plan_id=plan_id,
            made_at=decision.made_at,
            workloads=tuple(item.workload for item in snapshot.demands),
            pending={item.workload.key: item.pending_count for item in snapshot.demands},
            stored=outcome_of(plan, Plan(), keys),
            is_edited=world is not None,
            notes=notes if world is None else (*notes, *world.notes),
        )
        if world is None and dumps(again) == decision.plan_json:
            return told
        why = _why(plan, again, decision) if world is None else None
        return replace(told, replayed=outcome_of(again, Plan(), keys), why=why)

    def _policy_of(self, decision: Decision) -> tuple[SchedulingPolicy, tuple[str, ...]]:
        if decision.policy_json is None:
            note = "the decision does not say how its planner was set: the deployment's present settings are used"
            return self.policy, (note,)
        return read_policy(decision, decision.policy_json), ()


def read_plan(decision: Decision, snapshot_json: str) -> tuple[Decision, Snapshot, Plan]:
    """Return a stored plan of provisioning with its snapshot. Raises ReplayError when it is none."""
    if decision.plan_id.startswith(f"{DECISION_PREFIX}-"):
        raise ReplayError(
            f"{decision.plan_id} is a pass of disruption, not a plan: see reservoir explain node"
        )
    try:
        return decision, loads(Snapshot, snapshot_json), loads(Plan, decision.plan_json)
    except CodecError as error:
        message = f"this release cannot read {decision.plan_id}: {error}"
        raise ReplayError(message) from error


def read_policy(decision: Decision, policy_json: str) -> SchedulingPolicy:
    """Return how the planner was set for a decision. Raises ReplayError when this release cannot read it."""
    try:
        return policy_from_json(policy_json)
    except CodecError as error:
        message = f"this release cannot read how the planner was set for {decision.plan_id}: {error}"
        raise ReplayError(message) from error


def _why(plan: Plan, again: Plan, decision: Decision) -> str:
    """Say what can make a difference where the arguments are the same."""
    cut = [note for note in plan.notes if note not in again.notes]
    if cut:
        return f"the planner noted, and this replay does not: {'; '.join(cut)}"
    lacking = [note for note in again.notes if note not in plan.notes]
    if lacking:
        return f"this replay notes, and the planner did not: {'; '.join(lacking)}"
    if decision.policy_json is None:
        return "the planner may have been set otherwise, or be of another release"
    return "the same arguments give the same plan: another release decided, or its processor rounds differently"
