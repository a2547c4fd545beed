"""Past demand, played through the real scheduler and the real disruption, as fast as they plan.

Time jumps from one arrival, end or step of a ladder to the next. Whenever demand waits and something has changed, the
world of that instant is planned, with as many free units as the nodes of the play leave. Nodes run at once, and end
when they are empty. When units become free beside nodes that were bought, a pass of disruption is decided as in a
deployment, and the replicas that it ends or moves are planned again; at most one pass for each hour that is played.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, product
from typing import Final

from reservoir.core.advice.count import Bill, Cost
from reservoir.core.advice.lives import Life
from reservoir.core.advice.units import Ground, Solve
from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.launching.claim_nodes import ClaimFacts, node_of, planned_claims
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan, PlannedNodes
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD

# in the order in which they happen within a second
_END, _ARRIVAL, _LOOK, _GONE, _PASS = range(5)
_SECOND: Final = timedelta(seconds=1)
_PASS_EACH_S: Final = 3600
_PASS_AFTER_S: Final = 60
_HOUR_S: Final = 3600
_ALL: Final = 1_000_000  # as many nodes as a budget would allow to go


@dataclass(frozen=True, slots=True)
class Played:
    """The results, week by week; ``started_s``: after how long each life had all of its places."""

    weeks: tuple[Cost, ...]
    started_s: Mapping[str, int]
    plan_count: int

    @property
    def cost(self) -> Cost:
        """All weeks together."""
        return sum(self.weeks, Cost())


@dataclass(slots=True, eq=False)
class _Stint:
    """Replicas of one life on one node; ``ends_s`` None: for the rest of the time."""

    key: str
    count: int
    ends_s: int | None
    claim_id: str


@dataclass(slots=True)
class _Waiting:
    """Waiting replicas; those that ran before are among ``moved``, and end when they would have ended."""

    count: int
    since_s: int
    moved: list[_Stint]


def play(
    ground: Ground,
    lives: Sequence[Life],
    units: Mapping[str, int],
    solve: Solve,
    since: datetime,
    until: datetime,
    worth_percent: int,
) -> Played:
    """Play lives with so many units of each kind."""
    return _Play(ground, lives, units, solve, since, until).run(worth_percent)


class _Play:
    def __init__(
        self,
        ground: Ground,
        lives: Iterable[Life],
        units: Mapping[str, int],
        solve: Solve,
        since: datetime,
        until: datetime,
    ) -> None:
        self.ground, self.units, self.solve, self.since = ground, units, solve, since
        self.end_s = (until - since) // _SECOND
        self.bill = Bill(since, until)
        self.lives: dict[str, Life] = {}
        self.workloads: dict[str, Workload] = {}
        self.waiting: dict[str, _Waiting] = {}
        self.claims: dict[str, NodeClaim] = {}
        self.stints: dict[str, list[_Stint]] = {}  # by claim
        self.bought_since: dict[str, int] = {}
        self.used: Counter[str] = Counter()
        self.events: list[tuple[int, int, int, object]] = []
        self.sequence = self.plan_count = self.claim_count = 0
        self.next_pass_s = 0
        self.started_s: dict[str, int] = {}
        world = ground.world
        self.facts = ClaimFacts(
            {item.name: item for item in world.node_pools},
            {item.name: item for item in world.node_classes},
            {item.name: item for item in world.instance_types},
            {item.id: item for item in world.reservations},
            self.workloads,
        )
        pool_names = [pool.name for pool in world.node_pools]
        self.allowed = dict.fromkeys(product(pool_names, DisruptionReason), _ALL)
        for life in lives:
            if ground.fit(life.workload).fits:
                self._after((life.arrived_at - since) // _SECOND, _ARRIVAL, life)

    # Branches: the kinds of changes at an instant, and what is left at the end.
    def run(self, worth_percent: int) -> Played:
        """Play all of it."""
        while self.events and self.events[0][0] < self.end_s:
            at_s = self.events[0][0]
            has_freed = is_pass = False
            while self.events and self.events[0][0] == at_s:
                _, kind, _, what = heapq.heappop(self.events)
                has_freed |= self._happen(at_s, kind, what)
                is_pass |= kind == _PASS
            if self.waiting:
                self._serve(at_s)
            if is_pass and self.bought_since:
                self._disrupt(at_s)
            elif has_freed and self.bought_since and not is_pass:
                self._expect_pass(at_s)
        for key, each in self.waiting.items():
            self._waited(key, each.count, each.since_s, self.end_s)
            self.started_s.setdefault(key, max(0, self.end_s - each.since_s))
        for claim_id in list(self.bought_since):
            self._pay(claim_id, self.end_s)
        prices = {kind.id: kind.micro_usd_per_hour for kind in self.ground.kinds}
        held = sum(prices[kind] * count for kind, count in self.units.items())
        return Played(self.bill.costs(held, worth_percent), self.started_s, self.plan_count)

    def _after(self, at_s: int, kind: int, what: object) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (at_s, kind, self.sequence, what))

    def _expect_pass(self, at_s: int) -> None:
        due_s = max(at_s + _PASS_AFTER_S, self.next_pass_s)
        self.next_pass_s = due_s + _PASS_EACH_S
        self._after(due_s, _PASS, None)

    def _now(self, at_s: int) -> datetime:
        return self.since + timedelta(seconds=at_s)

    # --- what happens

    def _happen(self, at_s: int, kind: int, what: object) -> bool:
        """Let one thing happen; return whether units became free."""
        if kind == _ARRIVAL and isinstance(what, Life):
            self._arrive(at_s, what)
        elif kind == _GONE and isinstance(what, str) and what in self.waiting:
            each = self.waiting.pop(what)
            self._waited(what, each.count, each.since_s, at_s)
        elif kind == _END and isinstance(what, _Stint) and what.count:
            return self._leave(at_s, what)
        return False

    def _arrive(self, at_s: int, life: Life) -> None:
        # Lives of one workload stay apart: each has a name of its own.
        workload = replace(life.workload, name=f"{life.workload.name}.{life.number}")
        self.workloads[workload.key], self.lives[workload.key] = workload, life
        self.waiting[workload.key] = _Waiting(workload.replicas, at_s, [])
        opens_s = at_s
        for step in workload.fallback:
            if step.for_s is None:
                break
            opens_s += step.for_s
            self._after(opens_s, _LOOK, None)
        if life.gone_at is not None:
            self._after(
                max(at_s, (life.gone_at - self.since) // _SECOND), _GONE, workload.key
            )

    def _leave(self, at_s: int, stint: _Stint) -> bool:
        if not stint.claim_id:  # it waits for another node, and is done
            waiting = self.waiting[stint.key]
            waiting.moved.remove(stint)
            self._less(at_s, stint.key, stint.count)
            return False
        claim_id = stint.claim_id
        self.stints[claim_id].remove(stint)
        if not self.stints[claim_id]:
            return self._end_node(at_s, claim_id)
        self.claims[claim_id] = self._placed(self.claims[claim_id], at_s)
        return self.claims[claim_id].offering.reservation_id is not None

    def _placed(self, claim: NodeClaim, at_s: int) -> NodeClaim:
        """Return a claim with the replicas that are on it now."""
        counts: Counter[str] = Counter()
        for stint in self.stints[claim.id]:
            counts[stint.key] += stint.count
        placements = tuple(PlacedReplicas(key, counts[key]) for key in sorted(counts))
        return replace(claim, placements=placements, placements_changed_at=self._now(at_s))

    def _end_node(self, at_s: int, claim_id: str) -> bool:
        claim = self.claims.pop(claim_id)
        del self.stints[claim_id]
        if claim.offering.reservation_id is not None:
            self.used[claim.offering.reservation_id] -= 1
            return True
        self._pay(claim_id, at_s, claim)
        return False

    def _pay(self, claim_id: str, at_s: int, claim: NodeClaim | None = None) -> None:
        claim = claim or self.claims[claim_id]
        rate = claim.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD
        self.bill.add(0, rate, self.bought_since.pop(claim_id), at_s)

    def _waited(self, key: str, count: int, since_s: int, until_s: int) -> None:
        worth = self.ground.fit(self.lives[key].workload).worth_micro_usd_per_hour
        self.bill.add(1, worth * count, since_s, until_s)
        self.bill.add(2, count, since_s, until_s)

    # --- planning

    def _snapshot(self) -> Snapshot:
        world = self.ground.world
        nodes = tuple(
            node_of(self.claims[claim_id], self.workloads)
            for claim_id in sorted(self.claims)
        )
        reservations: list[CapacityReservation] = []
        for reservation in world.reservations:
            units = self.units.get(reservation.id, 0)
            free = units - self.used[reservation.id]
            if units:
                counted = replace(
                    reservation, total_count=units, available_count=free, free_units=free
                )
                reservations.append(counted)
        demands: list[Demand] = []
        for key, waiting in sorted(self.waiting.items()):
            since = self._now(waiting.since_s)
            demands.append(Demand(self.workloads[key], waiting.count, since))
        running = {stint.key for stint in chain.from_iterable(self.stints.values())}
        keys = sorted(running | self.waiting.keys())
        return replace(
            world,
            reservations=tuple(reservations),
            nodes=nodes,
            demands=tuple(demands),
            workloads={key: self.workloads[key] for key in keys},
        )

    def _serve(self, at_s: int) -> None:
        plan = self.solve(self._snapshot(), self._now(at_s))
        self.plan_count += 1
        self._apply(at_s, plan)

    def _apply(self, at_s: int, plan: Plan) -> None:
        for launch in plan.launches:
            for claim_id in self._launch(at_s, launch):
                self._fill(at_s, claim_id, launch.placements)
        for existing in plan.existing:
            self._fill(at_s, existing.claim_id, existing.placements)

    def _launch(self, at_s: int, launch: PlannedNodes) -> list[str]:
        """Make the nodes of a launch, with nothing on them yet."""
        now = self._now(at_s)
        ids = [
            f"nc-{self.claim_count + number:09}" for number in range(1, launch.count + 1)
        ]
        self.claim_count += launch.count
        for claim in planned_claims(launch, ids, self.facts, plan_id="plan", now=now):
            up = replace(
                claim,
                state=ClaimState.RUNNING,
                instance_id=claim.id,
                launched_at=now,
                running_at=now,
                placements=(),
            )
            self.claims[claim.id], self.stints[claim.id] = up, []
            if launch.offering.reservation_id is None:
                self.bought_since[claim.id] = at_s
            else:
                self.used[launch.offering.reservation_id] += 1
        return ids

    def _fill(self, at_s: int, claim_id: str, placements: Iterable[PlacedReplicas]) -> None:
        for placed in placements:
            for stint in self._taken(at_s, placed.workload_key, placed.count):
                stint.claim_id = claim_id
                self.stints[claim_id].append(stint)
        self.claims[claim_id] = self._placed(self.claims[claim_id], at_s)

    def _taken(self, at_s: int, key: str, count: int) -> list[_Stint]:
        """Take waiting replicas: first those that ran before."""
        found: list[_Stint] = []
        waiting, left = self.waiting[key], count
        while left and waiting.moved:
            stint = waiting.moved[0]
            if stint.count <= left:
                taken = waiting.moved.pop(0)
            else:
                taken = _Stint(key, left, stint.ends_s, "")
                stint.count -= left
                self._note_end(taken)
            found.append(taken)
            left -= taken.count
        if left:
            ran_s = self.lives[key].ran_s
            fresh = _Stint(key, left, None if ran_s is None else at_s + ran_s, "")
            self._note_end(fresh)
            found.append(fresh)
        self._less(at_s, key, count)
        return found

    def _note_end(self, stint: _Stint) -> None:
        if stint.ends_s is not None:
            self._after(stint.ends_s, _END, stint)

    def _less(self, at_s: int, key: str, count: int) -> None:
        """Let fewer replicas wait."""
        waiting = self.waiting[key]
        self._waited(key, count, waiting.since_s, at_s)
        waiting.count -= count
        if not waiting.count:
            self.started_s.setdefault(key, at_s - waiting.since_s)
            del self.waiting[key]

    # --- disruption

    def _disrupt(self, at_s: int) -> None:
        now = self._now(at_s)
        snapshot = self._snapshot()
        given = DisruptionInput(snapshot, dict(self.claims), self.allowed)
        decision = decide_disruption(given, self._solve_at(now), now=now)
        for command in decision.commands:
            if not set(command.claim_ids) <= self.claims.keys():
                continue
            for claim_id in command.claim_ids:
                self._evict(at_s, claim_id)
            for launch in command.replacements:
                self._launch(at_s, launch)
            if self.waiting:
                self._serve(at_s)
            for claim_id in [key for key, stints in self.stints.items() if not stints]:
                self._end_node(at_s, claim_id)

    def _solve_at(self, now: datetime) -> Callable[[Snapshot], Plan]:
        def solved(snapshot: Snapshot) -> Plan:
            self.plan_count += 1
            return self.solve(snapshot, now)

        return solved

    def _evict(self, at_s: int, claim_id: str) -> None:
        """End a node; its replicas wait, and continue where they are placed next."""
        for stint in self.stints[claim_id]:
            stint.claim_id = ""
            waiting = self.waiting.get(stint.key)
            if waiting is None:
                waiting = self.waiting[stint.key] = _Waiting(0, at_s, [])
            waiting.count += stint.count
            waiting.moved.append(stint)
        self.stints[claim_id] = []
        self._end_node(at_s, claim_id)
