"""A plan in transactions: claims, their leases and the workloads' counts move together, at most 100 rows at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.launching.claim_nodes import correlated, grown_claim, planned_claims
from reservoir.core.launching.launch_request import FLEET_COUNT_MAX, launch_key
from reservoir.core.model.node_claim import ClaimState, NodeClaim, correlation_ids_of
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.sharing.planning_groups import GROUPS_MAX, PlanningTurn
from reservoir.core.warm_nodes.taking import make_way, onto_warm_nodes
from reservoir.ports.errors import RowsRefusedError
from reservoir.ports.messaging import NAMED_MAX, LaunchBatch
from reservoir.ports.state import (
    COMMIT_ITEMS_MAX,
    ConflictError,
    NodeClaimStore,
    PlannedCommit,
)
from reservoir.ports.system import Clock, IdFactory
from reservoir.usecases.claims.claim_moves import return_all_replicas
from reservoir.usecases.provisioning.followers import Followers
from reservoir.usecases.provisioning.gather_snapshot import Gathered
from reservoir.usecases.provisioning.recent_commits import RecentCommits

# Beside one claim, one reservation and the turns of all groups of NodePools, so many workloads fit in one transaction
# with room to spare.
_WORKLOADS_MAX: Final = COMMIT_ITEMS_MAX - 10 - GROUPS_MAX


# a new claim, or one before and after it grows
_Step = NodeClaim | tuple[NodeClaim, NodeClaim]


@dataclass(slots=True)
class Committed:
    """What of a plan is committed; ``lost`` names the rows for which something else came first.

    ``making_way``: warm nodes that are to end now, because new claims wait for their units.
    """

    claims: list[NodeClaim] = field(default_factory=list)
    # onto which, and what
    placed: list[tuple[NodeClaim, tuple[PlacedReplicas, ...]]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    making_way: list[NodeClaim] = field(default_factory=list)
    # the last that were taken, by group of NodePools
    turns: dict[str, int] = field(default_factory=dict)

    @property
    def placed_count(self) -> int:
        """Replicas that got a place."""
        placed = chain.from_iterable(placements for _, placements in self.placements())
        return sum(each.count for each in placed)

    def placements(self) -> Iterator[tuple[NodeClaim, tuple[PlacedReplicas, ...]]]:
        """Yield each claim with the replicas that were placed on it."""
        yield from ((claim, claim.placements) for claim in self.claims)
        yield from self.placed

    def batches(self) -> tuple[LaunchBatch, ...]:
        """Return the launch batches of the committed claims that do not wait for a slot."""
        return launch_batches(claim for claim in self.claims if not claim.waits_for_slot)


@dataclass(frozen=True, slots=True)
class _Work:
    """A gang (with others that share a node with it), committed whole or not at all, or everything that is no gang."""

    is_gang: bool
    claims: list[NodeClaim]
    existing: list[tuple[NodeClaim, NodeClaim]]


@dataclass(frozen=True, slots=True)
class PlanCommitter:
    """Commits plans."""

    node_claims: NodeClaimStore
    ids: IdFactory
    clock: Clock

    def commit(
        self,
        plan: Plan,
        gathered: Gathered,
        *,
        plan_id: str,
        now: datetime,
        turns: Mapping[str, PlanningTurn],
        recent: RecentCommits,
    ) -> Committed:
        """Commit as much as can be committed; a gang that cannot be committed whole is given back.

        ``turns`` are the turns of the plan's groups, as they were before the pass began to read; each commit is added
        to ``recent``. Raises ConflictError when other processes keep changing a claim that is given back, and
        UnreadableRowsError.
        """
        generations = {key: record.generation for key, record in gathered.records.items()}
        committed = Committed(turns={key: turn.number for key, turn in turns.items()})
        for work in self._works(plan, gathered, plan_id, now):
            parts = list(_parts(work, generations, COMMIT_ITEMS_MAX - len(turns)))
            done: list[PlannedCommit] = []
            for part in parts:
                try:
                    self._commit(part, committed.turns, recent)
                except (ConflictError, RowsRefusedError) as error:
                    # A row that DynamoDB does not take would be refused again at once: the next pass tries.
                    committed.lost.extend(
                        error.rows if isinstance(error, ConflictError) else ()
                    )
                    if work.is_gang:
                        self._give_back(done, now)
                        done = []
                        break
                else:
                    done.append(part)
            for part in done:
                committed.claims.extend(part.claims)
                committed.placed.extend(
                    (after, _added(before, after)) for before, after in part.existing
                )
                committed.making_way.extend(_newly_marked(part.existing))
        return committed

    def _commit(
        self, part: PlannedCommit, turns: dict[str, int], recent: RecentCommits
    ) -> None:
        """Commit a part on the next turns, and count them."""
        at = self.clock.now()
        taken = {key: PlanningTurn(number + 1, at) for key, number in turns.items()}
        recent.add(part)
        self.node_claims.commit(replace(part, planning_turns=taken))
        turns.update({key: turn.number for key, turn in taken.items()})

    def _works(
        self, plan: Plan, gathered: Gathered, plan_id: str, now: datetime
    ) -> Iterator[_Work]:
        """Yield gangs first (they need their units whole), then everything else.

        Raises UnreadableRowsError.
        """
        facts = gathered.facts()
        correlation_ids = gathered.correlation_ids()
        claims: list[NodeClaim] = []
        follow = Followers(self.node_claims, gathered, now)
        taken = onto_warm_nodes(plan, gathered.warm, facts)
        for planned in taken.plan.launches:
            ids = [self.ids.new_id("nc") for _ in range(planned.count)]
            made = planned_claims(planned, ids, facts, plan_id=plan_id, now=now)
            claims += [correlated(claim, correlation_ids) for claim in made]
        way = make_way(claims, taken.left, facts.reservations, plan_id, now)
        claims = _in_batches_and_alone(way.claims, self.ids)
        existing = list(way.marked)
        for placement in taken.plan.existing:
            before = gathered.claims[placement.claim_id]
            grown = grown_claim(before, placement.placements, now, facts.workloads)
            existing.append((before, correlated(grown, correlation_ids)))
        claims, existing = follow.noted(claims, existing)
        gangs = {
            claim.gang_key for claim in claims if claim.gang_key is not None
        } | _gangs_on(existing, gathered)
        for together in _sharing_nodes(gangs, existing):
            yield _Work(
                True,
                [claim for claim in claims if claim.gang_key in together],
                [pair for pair in existing if _keys_added(pair) & together],
            )
        yield _Work(
            False,
            [claim for claim in claims if claim.gang_key is None],
            [pair for pair in existing if not _keys_added(pair) & gangs],
        )

    def _give_back(self, done: Sequence[PlannedCommit], now: datetime) -> None:
        """Undo the committed parts of a gang that could not be committed whole; nothing of it was launched."""
        for part in done:
            for claim in part.claims:
                return_all_replicas(self.node_claims, claim, now, _incomplete)
            for before, after in part.existing:
                self._take_off(after.id, _added(before, after), now)

    def _take_off(
        self, claim_id: str, added: Sequence[PlacedReplicas], now: datetime
    ) -> None:
        """Take replicas off a claim again; replicas that left it meanwhile (it began to drain) are demand already."""
        while (claim := self.node_claims.get(claim_id)) is not None:
            present = {placed.workload_key: placed.count for placed in claim.placements}
            taken = {
                placed.workload_key: min(placed.count, present[placed.workload_key])
                for placed in added
                if placed.workload_key in present
            }
            if not taken:
                return
            try:
                self.node_claims.return_replicas(
                    claim,
                    expected_revision=claim.revision,
                    placements=taken,
                    returned_at=now,
                )
            except ConflictError:
                continue
            return


def in_batches(claims: Iterable[NodeClaim], ids: IdFactory) -> list[NodeClaim]:
    """Give claims that one CreateFleet call can launch a common batch."""
    open_batches: dict[object, tuple[str, int]] = {}
    batched = []
    for claim in claims:
        key = launch_key(claim)
        batch_id, count = open_batches.get(key, ("", FLEET_COUNT_MAX))
        if count == FLEET_COUNT_MAX:
            batch_id, count = ids.new_id("batch"), 0
        open_batches[key] = (batch_id, count + 1)
        batched.append(replace(claim, batch_id=batch_id))
    return batched


def _in_batches_and_alone(claims: Sequence[NodeClaim], ids: IdFactory) -> list[NodeClaim]:
    """Give each claim that waits for a slot a batch of its own: slots come free one by one."""
    batched = in_batches((claim for claim in claims if not claim.waits_for_slot), ids)
    for claim in claims:
        if claim.waits_for_slot:
            batched += in_batches([claim], ids)
    return batched


def launch_batches(claims: Iterable[NodeClaim]) -> tuple[LaunchBatch, ...]:
    """Return the launch batches of claims, in order of first appearance."""
    members: dict[str, list[NodeClaim]] = {}
    for claim in claims:
        members.setdefault(claim.batch_id, []).append(claim)
    return tuple(_launch_batch(batch_id, each) for batch_id, each in members.items())


def _launch_batch(batch_id: str, members: Sequence[NodeClaim]) -> LaunchBatch:
    return LaunchBatch(
        batch_id,
        tuple(claim.id for claim in members),
        correlation_ids=_correlation_ids(members),
    )


def _correlation_ids(claims: Iterable[NodeClaim]) -> tuple[str, ...]:
    """Return the correlation ids of a batch's workloads, as far as a line of a log should be long."""
    return tuple(correlation_ids_of(claims)[:NAMED_MAX])


def in_transactions(
    claims: Sequence[NodeClaim],
    existing: Sequence[tuple[NodeClaim, NodeClaim]],
    depends_on: Mapping[str, int],
) -> Iterator[PlannedCommit]:
    """Cut new claims and changes of existing ones, none of which adds replicas, into transactions.

    Each has room for one row more. ``depends_on`` are workloads, by generation, that must not have changed. The first
    transaction checks them; where it has no room for all, transactions before it check the others.
    """
    rows_max = COMMIT_ITEMS_MAX - 1
    parts = list(_parts(_Work(False, list(claims), list(existing)), {}, rows_max))
    unnamed = sorted(depends_on.items())
    room = rows_max - parts[0].item_count()
    while len(unnamed) > room:
        yield PlannedCommit(depends_on=dict(unnamed[:rows_max]))
        unnamed = unnamed[rows_max:]
    yield replace(parts[0], depends_on=dict(unnamed))
    yield from parts[1:]


def _incomplete(claim: NodeClaim) -> NodeClaim | None:
    if claim.state is not ClaimState.PLANNED:
        return None
    return replace(
        claim, state=ClaimState.FAILED, failure="its gang could not be committed whole"
    )


def _added(before: NodeClaim, after: NodeClaim) -> tuple[PlacedReplicas, ...]:
    had = {placed.workload_key: placed.count for placed in before.placements}
    grown = (
        (placed.workload_key, placed.count - had.get(placed.workload_key, 0))
        for placed in after.placements
    )
    return tuple(PlacedReplicas(key, count) for key, count in grown if count > 0)


def _newly_marked(
    pairs: Iterable[tuple[NodeClaim, NodeClaim]],
) -> Iterator[NodeClaim]:
    """Yield the claims, as they are stored now, that were marked to go."""
    for before, after in pairs:
        if before.disruption is None and after.disruption is not None:
            yield replace(after, revision=before.revision + 1)


def _keys_added(pair: tuple[NodeClaim, NodeClaim]) -> set[str]:
    return {placed.workload_key for placed in _added(*pair)}


def _gangs_on(
    existing: Iterable[tuple[NodeClaim, NodeClaim]], gathered: Gathered
) -> set[str]:
    keys = set(chain.from_iterable(map(_keys_added, existing)))
    workloads = gathered.snapshot.workloads
    return {key for key in keys if key in workloads and workloads[key].gang is not None}


def _sharing_nodes(
    gangs: set[str], existing: Iterable[tuple[NodeClaim, NodeClaim]]
) -> list[frozenset[str]]:
    """Return the gangs, sorted; gangs that join one existing claim together are one."""
    together = [frozenset({gang}) for gang in sorted(gangs)]
    for pair in existing:
        touched = [part for part in together if part & _keys_added(pair)]
        if len(touched) > 1:
            together = [part for part in together if part not in touched]
            together.append(frozenset(chain.from_iterable(touched)))
    return sorted(together, key=sorted)


def _steps(work: _Work) -> Iterator[_Step]:
    """Yield new claims and growths; one that serves more workloads than a transaction holds grows step by step."""
    for before, after in work.existing:
        yield from _growth(before, after)
    for claim in work.claims:
        if len(claim.placements) <= _WORKLOADS_MAX:
            yield claim
            continue
        first = replace(claim, placements=claim.placements[:_WORKLOADS_MAX])
        yield first
        yield from _growth(first, claim)


def _growth(before: NodeClaim, after: NodeClaim) -> Iterator[_Step]:
    added = _added(before, after)
    while len(added) > _WORKLOADS_MAX:
        step = grown_claim(before, added[:_WORKLOADS_MAX], after.placements_changed_at, {})
        step = replace(step, placed_with=after.placed_with)
        yield before, step
        before, added = replace(step, revision=before.revision + 1), added[_WORKLOADS_MAX:]
    yield before, replace(after, revision=before.revision)


def _parts(
    work: _Work, generations: Mapping[str, int], rows_max: int
) -> Iterator[PlannedCommit]:
    """Cut the work into transactions of at most ``rows_max`` rows, none of which touches a row twice.

    Beside a claim's own row count the rows of its workloads and of its reservation, once each in a transaction.
    """
    part = PlannedCommit()
    touched: set[str] = set()
    for step in _steps(work):
        claim_id = step.id if isinstance(step, NodeClaim) else step[0].id
        grown = _joined(part, step)
        if claim_id in touched or grown.item_count() > rows_max:
            yield _with_generations(part, generations)
            grown, touched = _joined(PlannedCommit(), step), set()
        part = grown
        touched.add(claim_id)
    if touched:
        yield _with_generations(part, generations)


def _joined(part: PlannedCommit, step: _Step) -> PlannedCommit:
    if isinstance(step, NodeClaim):
        return replace(part, claims=(*part.claims, step))
    return replace(part, existing=(*part.existing, step))


def _with_generations(part: PlannedCommit, generations: Mapping[str, int]) -> PlannedCommit:
    return replace(
        part,
        generations={key: generations[key] for key in sorted(part.placed_by_workload())},
    )
