"""The snapshot: everything that a solve may see, read from the stores."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Final

from reservoir.core.capacity.boot_failure import BootFailures, without_suspected
from reservoir.core.capacity.full_subnets import with_full_zones
from reservoir.core.capacity.unavailable_offerings import (
    NodeClassKey,
    Place,
    SpotLossKey,
    Unavailable,
    with_resting_markets,
    without_resting,
)
from reservoir.core.disruption.rollout import Hosting, RollingNode
from reservoir.core.launching.claim_nodes import ClaimFacts, counted_keys
from reservoir.core.launching.described_nodes import DescribedNodes
from reservoir.core.launching.placed_terms import PlacedTerms
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import NodeClass, NodeClassStatus
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import (
    Ceiling,
    ReclaimWithinCohort,
    Team,
    by_namespace,
    may_reach,
)
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.node_life.drain import LONGEST_NOTICE
from reservoir.core.node_life.spot_losses import OnDemandMarket, with_spot_rests
from reservoir.core.sharing.accounts import TeamOf, owners
from reservoir.core.sharing.planning_groups import PlanningGroups
from reservoir.core.sharing.reading_turns import ReadingTurns
from reservoir.core.warm_nodes.free_units import WarmNodes, without_warm_nodes
from reservoir.ports.capacity_blocks import BootFailureStore
from reservoir.ports.policy import PolicyKind, PolicyObject, PolicyStore
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    ReservationRecord,
    ReservationStore,
    UnreadableRowsError,
    WorkloadRecord,
    WorkloadStore,
)
from reservoir.usecases.accounting.monthly_budgets import MonthlyBudgets
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.checkpoints import placed_terms
from reservoir.usecases.policy.policy_objects import Policy, policy_of
from reservoir.usecases.policy.resolve_node_classes import BLOCK_REST
from reservoir.usecases.provisioning.recent_commits import RecentCommits

# Listings may lag the last commit by moments; for a workload whose rules depend on where its replicas run, the pass
# waits.
_READS_MAX: Final = 3
# at a class that was applied just now, and at reservations
_NEXT_LOOK: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The snapshot with the rows that it was made from.

    ``warm``: warm nodes, by reservation, that the snapshot does not show, with their units as free ones.
    """

    snapshot: Snapshot
    claims: Mapping[str, NodeClaim]
    # the workloads that need planning, and the ones that run
    records: Mapping[str, WorkloadRecord]
    reservations: Mapping[str, ReservationRecord]
    placed_terms: PlacedTerms = field(default_factory=lambda: PlacedTerms({}, {}))
    warm: WarmNodes = field(default_factory=dict)

    def facts(self) -> ClaimFacts:
        """Return the parts by name."""
        return ClaimFacts(
            node_pools={pool.name: pool for pool in self.snapshot.node_pools},
            node_classes={
                node_class.name: node_class for node_class in self.snapshot.node_classes
            },
            instance_types={
                instance_type.name: instance_type
                for instance_type in self.snapshot.instance_types
            },
            reservations={
                reservation.id: reservation for reservation in self.snapshot.reservations
            },
            workloads=self.snapshot.workloads,
            teams=by_namespace(self.snapshot.teams),
        )

    def correlation_ids(self) -> Mapping[str, str | None]:
        """Return the correlation id of each workload, by key."""
        return {key: record.correlation_id for key, record in self.records.items()}


@dataclass(frozen=True)
class PolicyReading:
    """Policy and reservations, while they are being read."""

    objects: Future[tuple[PolicyObject, ...]]
    reservations: Future[tuple[ReservationRecord, ...]]

    @cached_property
    def policy(self) -> Policy:
        """The policy, once it has been read: a pass asks for it twice."""
        return policy_of(self.objects.result())


@dataclass(frozen=True, slots=True)
class SnapshotGatherer:
    """Reads snapshots."""

    offerings: OfferingStore
    reservations: ReservationStore
    node_claims: NodeClaimStore
    workloads: WorkloadStore
    policy: PolicyStore
    boot_failures: BootFailureStore
    executor: Executor
    budgets: MonthlyBudgets = field(default_factory=MonthlyBudgets)
    described: DescribedNodes = field(default_factory=DescribedNodes)
    longest_notice: timedelta = LONGEST_NOTICE  # that any work gets, whatever it asks for
    turns: ReadingTurns = field(default_factory=ReadingTurns)  # where what waits is much

    def needing(
        self, named: Collection[str] = (), reading: PolicyReading | None = None
    ) -> Mapping[str, WorkloadRecord]:
        """Return the workloads that have too few or too many replicas; costs one query, and a read of those named.

        Raises UnreadableRowsError as :meth:`listed_or` does.
        """
        return {
            key: record
            for key, record in self.listed_or(named, reading).items()
            if record.needs_planning
        }

    def listed_or(
        self, named: Collection[str], reading: PolicyReading | None = None
    ) -> Mapping[str, WorkloadRecord]:
        """Return the listed workloads and the named ones, whether these need planning or not.

        Where more are listed than one pass has room for, each team's part is returned. The listing is an index that may
        lag behind the last write, so workloads that were just written are named and read from their rows. Raises
        UnreadableRowsError for named workloads.
        """

        def team_of() -> TeamOf:
            return owners((reading or self.read_policy()).policy.teams)

        waiting = self.workloads.read_waiting(
            lambda keys: self.turns.reading(keys, named, team_of)
        )
        listed = {record.key: record for record in waiting}
        unlisted = [key for key in named if key not in listed]
        return {**listed, **(self.workloads.get_many(unlisted) if unlisted else {})}

    def read_policy(self) -> PolicyReading:
        """Begin to read policy and reservations."""
        submit = self.executor.submit
        return PolicyReading(
            submit(self.policy.list_all), submit(self.reservations.list_current)
        )

    def planning_groups(self, reading: PolicyReading) -> PlanningGroups:
        """Return the groups of NodePools that share something."""
        policy = reading.policy
        return PlanningGroups(
            policy.node_pools,
            policy.node_classes,
            [record.reservation for record in reading.reservations.result()],
            policy.teams,
            has_ceiling=self.budgets.ceiling != Ceiling(),
        )

    def gather(
        self,
        now: datetime,
        *,
        reading: PolicyReading | None = None,
        needing: Collection[str] | None = None,
        recent: RecentCommits | None = None,
        live: Sequence[NodeClaim] | None = None,
        shows_warm_nodes: bool = False,
    ) -> Gathered:
        """Read everything.

        ``reading`` has begun, None: begin. ``needing``: keys of workloads that need planning, None: find them;
        ``recent``: commits that listings may not show yet; ``live``: the claims as they were just listed, None: list
        them. The snapshot has the units of warm nodes as free ones, or ``shows_warm_nodes`` in them. Raises
        UnreadableRowsError when the catalogue cannot be read.
        """
        submit = self.executor.submit
        reading = self.read_policy() if reading is None else reading
        remembered = submit(self.boot_failures.list_remembered)
        if needing is None:
            self.turns.begin(now)
        wanting = submit(
            lambda: self.needing(reading=reading) if needing is None else needing
        )
        listing = submit(self._live, recent, live)
        placed = submit(self.workloads.placed_revisions)
        instance_types, rests = self.offerings.load_with_rests()
        reservations = {
            record.reservation.id: record for record in reading.reservations.result()
        }
        keys = wanting.result()
        objects = reading.objects.result()
        claims = listing.result()
        records = self._records(keys, claims, placed.result())
        for _ in range(_READS_MAX - 1):
            if not _lagging(claims, records):
                break
            claims = self._live(recent)
            records = self._records(keys, claims, placed.result())
        unlisted = tuple(self._unlisted_pools(objects, claims.values()))
        policy = policy_of([*objects, *unlisted]) if unlisted else reading.policy
        for key in [
            key for key, claim in claims.items() if _rests_on(claim, policy.unreadable)
        ]:
            del claims[key]
        for key in self._on_unreadable(claims, reservations):
            del claims[key]
        pools = {pool.name: pool for pool in policy.node_pools}
        terms = placed_terms(records)
        shown, owners = terms.claims(claims), by_namespace(policy.teams)
        leaving = _leaving(records, claims, Hosting(terms, pools, owners), now)
        workloads = {
            key: workload.within_notice(self.longest_notice)
            .across_ends()
            .at_home(partial(may_reach, owners, workload.namespace))
            for key, workload in terms.workloads.items()
        }
        workloads = with_spot_rests(
            workloads,
            {place.workload_key for place in rests if isinstance(place, SpotLossKey)},
            OnDemandMarket(policy.node_pools, instance_types, now),
        )
        teams, ceiling = self.budgets.bounds(tuple(_teams(policy)), now)
        promisable = without_resting(
            _promisable(reservations, remembered.result(), now), rests
        )
        snapshot = Snapshot(
            instance_types=instance_types,
            reservations=promisable,
            node_pools=policy.node_pools,
            node_classes=tuple(
                _as_it_stands(each, rests, now) for each in _with_unreadable(policy)
            ),
            nodes=self.described.nodes(
                _without_room(shown, leaving), workloads, pools.keys(), now
            ),
            demands=_demands(records, workloads, leaving, now),
            workloads=workloads,
            teams=teams,
            ceiling_micro_usd_per_hour=ceiling,
        )
        warm: WarmNodes = {}
        if not shows_warm_nodes:
            snapshot, warm = without_warm_nodes(snapshot, claims.values())
        return Gathered(snapshot, claims, records, reservations, terms, warm)

    def _live(
        self, recent: RecentCommits | None, listed: Sequence[NodeClaim] | None = None
    ) -> dict[str, NodeClaim]:
        """Return the live claims by id, as they are stored where the listing is older than a recent commit."""
        claims = {
            claim.id: claim
            for claim in (self.node_claims.list_live() if listed is None else listed)
        }
        if recent is None or not (asked := recent.not_in(claims)):
            return claims
        stored = unreadable.claims_named(self.node_claims, asked)
        recent.forget_ended(asked, stored)
        claims = {key: claim for key, claim in claims.items() if key not in stored}
        return claims | {key: claim for key, claim in stored.items() if claim.is_live}

    def _records(
        self,
        needing: Collection[str],
        claims: dict[str, NodeClaim],
        revisions: Mapping[str, int],
    ) -> Mapping[str, WorkloadRecord]:
        """Read the workloads. Nodes of workloads that cannot be read leave ``claims``: no plan uses or ends them.

        Workloads that need planning are read again, whatever ``revisions`` say.
        """
        placed = counted_keys(claims.values())
        settled = {
            key: revision for key, revision in revisions.items() if key not in needing
        }
        records, lost = unreadable.workloads(self.workloads, {*needing, *placed}, settled)
        for key, claim in list(claims.items()) if lost else ():
            if not lost.isdisjoint(it.workload_key for it in claim.placements):
                del claims[key]
        return records

    def _on_unreadable(
        self, claims: Mapping[str, NodeClaim], known: Mapping[str, ReservationRecord]
    ) -> list[str]:
        """Return the claims in reservations that cannot be read or have ended: neither is listed."""
        named = {claim.offering.reservation_id for claim in claims.values()} - known.keys()
        lost = set()
        for reservation_id in sorted(key for key in named if key is not None):
            try:
                self.reservations.get(reservation_id)
            except UnreadableRowsError:
                lost.add(reservation_id)
        return [
            key for key, claim in claims.items() if claim.offering.reservation_id in lost
        ]

    def _unlisted_pools(
        self, objects: Iterable[PolicyObject], claims: Iterable[NodeClaim]
    ) -> Iterator[PolicyObject]:
        """Yield pools of claims that the listing leaves out: it may lag, and nodes of a deleted pool end."""
        listed = {stored.name for stored in objects if stored.kind is PolicyKind.NODE_POOL}
        for name in sorted({claim.node_pool_name for claim in claims} - listed):
            try:
                stored = self.policy.get(PolicyKind.NODE_POOL, name)
            except UnreadableRowsError:
                stored = PolicyObject(
                    PolicyKind.NODE_POOL, name, {}, 0, 0, is_readable=False
                )
            if stored is not None:
                yield stored


def _promisable(
    records: Mapping[str, ReservationRecord],
    remembered: Mapping[str, BootFailures],
    now: datetime,
) -> tuple[CapacityReservation, ...]:
    """Return the reservations, by id, without the units that are suspected to be broken."""
    known = (
        _with_next_observation(records[key].reservation, now) for key in sorted(records)
    )
    return without_suspected(tuple(known), remembered, now)


def _with_next_observation(
    reservation: CapacityReservation, now: datetime
) -> CapacityReservation:
    """Say when a reservation that EC2 refused may give units again: its next observation counts."""
    if reservation.refusal is None:
        return reservation
    return replace(
        reservation, refusal=replace(reservation.refusal, until=now + _NEXT_LOOK)
    )


def _teams(policy: Policy) -> Iterator[Team]:
    """Yield the teams without their principals, which no plan needs.

    While a team cannot be read, its units seem to be lent by no team: then nothing is reclaimed.
    """
    is_complete = all(kind is not PolicyKind.TEAM for kind, _ in policy.unreadable)
    for team in policy.teams:
        reclaim = team.reclaim_within_cohort if is_complete else ReclaimWithinCohort.NEVER
        yield replace(
            team, principals=(), principal_ids=frozenset(), reclaim_within_cohort=reclaim
        )


def _rests_on(claim: NodeClaim, lost: Set[tuple[PolicyKind, str]]) -> bool:
    """Whether the claim's pool or class is one of these; without both, no rule says what may happen to its node."""
    names = (
        (PolicyKind.NODE_POOL, claim.node_pool_name),
        (PolicyKind.NODE_CLASS, claim.node_class_name),
    )
    return not lost.isdisjoint(names)


def _with_unreadable(policy: Policy) -> Iterator[NodeClass]:
    """Yield the classes; a class that cannot be read launches nothing, and says why."""
    yield from policy.node_classes
    reason = "it cannot be read: a newer release wrote it, or it was damaged"
    for kind, name in sorted(policy.unreadable):
        if kind is PolicyKind.NODE_CLASS:
            yield NodeClass(
                name, static_hash="", status=NodeClassStatus(launch_blocked_reason=reason)
            )


def _as_it_stands(
    node_class: NodeClass, rests: Mapping[Place, Unavailable], now: datetime
) -> NodeClass:
    """Keep out of plans what could not be launched, and zones in which nothing would get an address."""
    # no plan looks at it
    status = replace(with_full_zones(node_class.status, rests, now), validation=None)
    # No plan asks for user data, which may hold secrets: snapshots are kept for replays.
    shown = replace(
        node_class, status=with_resting_markets(node_class, status, rests), user_data=None
    )
    return _as_ready(_without_rest(_with_next_look(shown), rests), now)


def _with_next_look(node_class: NodeClass) -> NodeClass:
    """Say when a class that EC2 refused is asked for again."""
    blocked_at = node_class.status.launch_blocked_at
    if node_class.status.launch_blocked_reason is None or blocked_at is None:
        return node_class
    return replace(
        node_class,
        status=replace(node_class.status, launch_blocked_until=blocked_at + BLOCK_REST),
    )


def _without_rest(node_class: NodeClass, rests: Mapping[Place, Unavailable]) -> NodeClass:
    """Keep a class out of plans whose instances end before they run."""
    rest = rests.get(NodeClassKey(node_class.name, node_class.static_hash))
    if rest is None or node_class.status.launch_blocked_reason is not None:
        return node_class
    status = replace(
        node_class.status,
        launch_blocked_reason=rest.reason,
        launch_blocked_until=rest.until,
    )
    return replace(node_class, status=status)


def _as_ready(node_class: NodeClass, now: datetime) -> NodeClass:
    """Keep a class out of plans for which discovery has not found what every launch needs (or finds it no more)."""
    status = node_class.status
    needed = {
        "subnet": status.subnets,
        "security group": status.security_group_ids,
        "machine image": status.machine_images,
        # nodes must not come up without it
        "instance profile": node_class.role is None or status.instance_profile,
    }
    missing = [name for name, found in needed.items() if not found]
    if status.launch_blocked_reason is not None or not missing:
        return node_class
    if not (status.subnets or status.security_group_ids or status.machine_images):
        # discovery has not seen it at all
        status = replace(status, launch_blocked_until=now + _NEXT_LOOK)
    return replace(
        node_class,
        status=replace(status, launch_blocked_reason=f"no {missing[0]} is known yet"),
    )


def _leaving(
    records: Mapping[str, WorkloadRecord],
    claims: Mapping[str, NodeClaim],
    hosting: Hosting,
    now: datetime,
) -> Mapping[str, RollingNode]:
    """Return the nodes that go because their replicas are being replaced by an update, by claim."""
    rolling = {key for key, record in records.items() if record.rollout is not None}
    nodes = hosting.nodes(rolling, claims.values(), now) if rolling else ()
    return {node.claim_id: node for node in nodes if node.leaves}


def _without_room(
    claims: Mapping[str, NodeClaim], leaving: Collection[str]
) -> Mapping[str, NodeClaim]:
    """Return the claims; those that are leaving have no room for new replicas."""
    if not leaving:
        return claims
    return {
        key: replace(claim, cordoned=True) if key in leaving else claim
        for key, claim in claims.items()
    }


def _demands(
    records: Mapping[str, WorkloadRecord],
    workloads: Mapping[str, Workload],
    leaving: Mapping[str, RollingNode],
    now: datetime,
) -> tuple[Demand, ...]:
    on_leaving = Counter[str]()
    for node in leaving.values():
        on_leaving.update(node.replicas)
    counts = {
        key: _wanting_a_place(record, on_leaving[key])
        for key, record in sorted(records.items())
        if key in workloads
    }
    return tuple(
        Demand(
            workloads[key],
            count,
            records[key].pending_since or now,
            was_late=_was_late(records[key]),
        )
        for key, count in counts.items()
        if count > 0
    )


def _wanting_a_place(record: WorkloadRecord, leaving_count: int) -> int:
    """Return how many replicas are to be placed: together with those that stay, never more than are wanted."""
    if record.surge_count == 0:
        return record.pending_count
    staying_count = record.placed_count - leaving_count
    return min(record.pending_count, max(0, record.unfinished_count - staying_count))


def _was_late(record: WorkloadRecord) -> bool | None:
    """Return whether time was short when a pass last considered the waiting replicas; None before the first pass."""
    if not record.unplaced:
        return None
    return any(item.code is ReasonCode.OUT_OF_TIME for item in record.unplaced)


def _lagging(
    claims: Mapping[str, NodeClaim], records: Mapping[str, WorkloadRecord]
) -> bool:
    """Whether replicas of a workload with topology rules are placed on claims that the listing does not show yet."""
    waiting = {
        key: record.placed_count
        for key, record in records.items()
        if record.workload is not None
        and record.pending_count > 0
        and _depends_on_placement(record.workload)
    }
    if not waiting:
        return False
    seen = dict.fromkeys(waiting, 0)
    for claim in claims.values():
        for placed in claim.placements:
            if placed.workload_key in seen:
                seen[placed.workload_key] += placed.count
    return seen != waiting


def _depends_on_placement(workload: Workload) -> bool:
    return bool(workload.has_topology_terms or workload.gang or workload.is_handed_over)
