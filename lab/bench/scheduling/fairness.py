"""Teams on one reservation through bursts and lulls: shares against a water level, units that come back, time to plan.

``teams-N``: N teams own half of 200 units evenly, the other half is nobody's; weights are 1, 2, 3, 1, … Ten thousand
jobs of one unit arrive, each team's in bursts of hours, and run for two hours on average; what is drained leaves at
the end of its notice and starts again. Minute by minute the real scheduler plans and the real pass of disruption takes
back. The time to plan is that of 2,000 replicas of 200 shapes over the whole market, with a reservation that the teams
contend for; the best of many, in turn.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from lab.bench.harness import fresh
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.common import node_class, node_pool
from lab.calibration import Figures
from reservoir.core.capacity.offerings import reservation_labels
from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    NodeClass,
    NodeClassStatus,
)
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.team import Quota, ReclaimWithinCohort, Team
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.node_life.drain import VOLUNTARY_GRACE
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

UNITS: Final = 200
_ARRIVALS: Final = 10_000
_MEAN_MINUTES: Final = 120
_BURST_MINUTES: Final = 240
_LOAD: Final = 1.15  # of what the units could do, over bursts and lulls
_SEED: Final = 7
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)
_NOTICE_MINUTES: Final = int(VOLUNTARY_GRACE / _MINUTE)
_WORKLOADS: Final = 200  # of the plan that is timed, with so many replicas each
_REPLICAS: Final = 10
_RUNS: Final = 25
_POLICY: Final = SchedulingPolicy()
_TYPE: Final = InstanceType(
    name="p5.48xlarge",
    requirements=Requirements.of(
        Requirement.new(labels.INSTANCE_TYPE, Operator.IN, ("p5.48xlarge",)),
        Requirement.new(labels.ARCH, Operator.IN, ("amd64",)),
    ),
    capacity=Resources.of({"cpu": 192_000, "pods": 110}),
    overhead=Resources.of({}),
    offerings=(),
    on_demand_price_micro_usd_per_hour=98_320_000,
)
_TERM: Final = CapacityReservationSelectorTerm(tags={"purpose": "shared"})


def cases() -> Sequence[str]:
    """Name the numbers of teams."""
    return [f"teams-{count}" for count in (2, 8, 50)]


def run(case: str) -> Figures:
    """Measure one trace in a process of its own."""
    return fresh("lab.bench.scheduling.fairness:measure", case)


@dataclass(slots=True)
class _Job:
    name: str
    minutes: int
    started: int = 0


@dataclass(slots=True)
class Trace:
    """One reservation and its teams, minute by minute."""

    teams: tuple[Team, ...]
    arrivals: Mapping[int, list[tuple[str, int]]]  # by minute: team and length
    minute: int = 0
    waiting: dict[str, deque[_Job]] = field(default_factory=dict)
    running: dict[str, tuple[str, _Job]] = field(default_factory=dict)  # by claim
    # claims that drain, until which minute
    leaving: dict[str, int] = field(default_factory=dict)
    claim_count: int = 0
    moves: int = 0

    def step(self) -> None:
        """Let a minute pass: work ends, work arrives, the planner plans, disruption takes back."""
        self.minute += 1
        for claim_id, (team_name, job) in list(self.running.items()):
            over = self.minute >= job.started + job.minutes
            if over or self.minute >= self.leaving.get(claim_id, self.minute + 1):
                del self.running[claim_id]
                self.leaving.pop(claim_id, None)
                if not over:
                    self.waiting[team_name].appendleft(job)
        for team_name, minutes in self.arrivals.get(self.minute, ()):
            self.waiting[team_name].append(_Job(team_name, minutes))
        if self.free() and any(self.waiting.values()):
            for launch in solve(self.snapshot(), now=self.now(), policy=_POLICY).launches:
                for _ in range(launch.count):
                    self._start(launch.placements[0].workload_key.partition("/")[0])
        if any(map(self.short, self.teams)):
            self._take_back()

    def _start(self, team_name: str) -> None:
        job = self.waiting[team_name].popleft()
        job.started = self.minute
        self.claim_count += 1
        self.running[f"nc-{self.claim_count}"] = (team_name, job)

    def _take_back(self) -> None:
        snapshot = self.snapshot()
        claims = {
            node.claim_id: self._claim(node) for node in snapshot.nodes if not node.deleting
        }
        allowed = {("default", reason): UNITS for reason in DisruptionReason}
        ask = partial(solve, now=self.now(), policy=_POLICY)
        for command in decide_disruption(
            DisruptionInput(snapshot, claims, allowed), ask, now=self.now()
        ).commands:
            for claim_id in command.claim_ids:
                self.leaving[claim_id] = self.minute + _NOTICE_MINUTES
                self.moves += 1

    def now(self) -> datetime:
        """Return the time."""
        return _START + self.minute * _MINUTE

    def free(self) -> int:
        """Return how many units are free."""
        return UNITS - len(self.running)

    def used(self) -> Counter[str]:
        """Count the units that each team uses and keeps."""
        return Counter(
            name
            for claim_id, (name, _) in self.running.items()
            if claim_id not in self.leaving
        )

    def wanted(self) -> Counter[str]:
        """Count what each team uses and what it waits for."""
        return self.used() + Counter(
            {name: len(jobs) for name, jobs in self.waiting.items()}
        )

    def short(self, team: Team) -> int:
        """Return how many units a team owns, waits for and does not use."""
        return max(
            0,
            min(
                len(self.waiting[team.name]),
                team.quotas[0].nominal_units - self.used()[team.name],
            ),
        )

    def snapshot(self) -> Snapshot:
        """Return what the planner sees."""
        workloads = {f"{team.name}/job": _workload(team.name) for team in self.teams}
        reservation = _reservation(self.free())
        demands = [
            Demand(
                replace(workloads[f"{name}/job"], replicas=len(jobs)), len(jobs), self.now()
            )
            for name, jobs in sorted(self.waiting.items())
            if jobs
        ]
        return Snapshot(
            instance_types=(_TYPE,),
            reservations=(reservation,),
            node_pools=(node_pool("default", capacity_types=(CapacityType.RESERVED,)),),
            node_classes=(
                NodeClass(
                    "default", status=NodeClassStatus(reservation_ids=(reservation.id,))
                ),
            ),
            nodes=tuple(
                self._node(claim_id, name, reservation)
                for claim_id, (name, _) in self.running.items()
            ),
            demands=tuple(demands),
            workloads=workloads,
            teams=self.teams,
        )

    def _node(
        self, claim_id: str, team_name: str, reservation: CapacityReservation
    ) -> Node:
        return Node(
            claim_id=claim_id,
            node_pool_name="default",
            node_class_name="default",
            instance_type=_TYPE.name,
            zone=reservation.zone,
            zone_id=reservation.zone_id,
            capacity_type=CapacityType.RESERVED,
            labels={
                labels.NODE_POOL: "default",
                labels.HOSTNAME: claim_id,
                **reservation_labels(reservation),
            },
            allocatable=_TYPE.allocatable,
            used=_workload(team_name).requests,
            placements=(PlacedReplicas(f"{team_name}/job", 1),),
            reservation_id=reservation.id,
            deleting=claim_id in self.leaving,
        )

    def _claim(self, node: Node) -> NodeClaim:
        started = _START + self.running[node.claim_id][1].started * _MINUTE
        place = OfferingKey(
            node.instance_type,
            node.zone,
            node.zone_id,
            node.capacity_type,
            node.reservation_id,
        )
        return NodeClaim(
            node.claim_id,
            ClaimState.RUNNING,
            1,
            node.node_pool_name,
            node.node_class_name,
            "b",
            0,
            place,
            0,
            node.placements,
            node.allocatable,
            started,
            running_at=started,
            labels=node.labels,
        )


def make(case: str, arrivals: int = _ARRIVALS) -> Trace:
    """Make the trace of a case."""
    count = int(case.partition("-")[2])
    own = UNITS // 2 // count
    teams = tuple(
        Team(
            f"team-{number:02d}",
            namespaces=(f"team-{number:02d}",),
            quotas=(Quota((_TERM,), own),),
            weight=number % 3 + 1,
            reclaim_within_cohort=ReclaimWithinCohort.ANY,
        )
        for number in range(count)
    )
    return Trace(
        teams,
        _arrivals([team.name for team in teams], arrivals),
        waiting={it.name: deque() for it in teams},
    )


def _arrivals(names: Sequence[str], count: int) -> Mapping[int, list[tuple[str, int]]]:
    """Return jobs: each team bursts for some hours, and rests as long."""
    rng = random.Random(_SEED)
    rate = UNITS / _MEAN_MINUTES * _LOAD / len(names)
    found: dict[int, list[tuple[str, int]]] = {}
    bursts = {name: rng.random() < 0.5 for name in names}
    minute = made = 0
    while made < count:
        minute += 1
        for name in names:
            if rng.random() < 1 / _BURST_MINUTES:
                bursts[name] = not bursts[name]
            expected = rate * (1.9 if bursts[name] else 0.1)
            jobs = int(expected) + (rng.random() < expected % 1)
            for _ in range(jobs):
                found.setdefault(minute, []).append(
                    (name, 1 + int(rng.expovariate(1 / _MEAN_MINUTES)))
                )
                made += 1
    return found


def measure(case: str, arrivals: str = str(_ARRIVALS)) -> Figures:
    """Play a trace; Jain's index is over minutes in which more is wanted than there is."""
    trace = make(case, int(arrivals))
    jain: list[float] = []
    use: list[float] = []
    # since when, unit by unit
    owed: dict[str, deque[int]] = {team.name: deque() for team in trace.teams}
    waits: list[int] = []
    below_quota = 0
    last = max(trace.arrivals)
    while trace.minute < last:
        trace.step()
        wanted, used = trace.wanted(), trace.used()
        if sum(wanted.values()) > UNITS:
            jain.append(jains_index(trace.teams, used, wanted))
            use.append(len(trace.running) / UNITS)
        for team in trace.teams:
            short, units = trace.short(team), owed[team.name]
            below_quota += bool(short and trace.free())
            waits += [trace.minute - units.popleft() for _ in range(len(units) - short)]
            units += [trace.minute] * (short - len(units))
    waits.sort()
    return {
        "minutes": trace.minute,
        "minutes_contended": len(jain),
        "jains_index_mean": round(sum(jain) / len(jain), 4),
        "reserved_use_while_wanted": round(sum(use) / len(use), 4),
        "team_minutes_below_quota_with_units_free": below_quota,
        "units_back_p99_s": 60 * waits[min(len(waits) - 1, len(waits) * 99 // 100)]
        if waits
        else 0,
        "notice_s": 60 * _NOTICE_MINUTES,
        "planning_ratio": round(planning_ratio(trace.teams), 2),
        "jobs_started": trace.claim_count,
        "moves_by_reclaim": trace.moves,
    }


def planning_ratio(teams: Sequence[Team]) -> float:
    """Return how much longer a plan over the whole market takes with teams that contend for one reservation."""
    market = ec2_catalogue()
    reserved = next(it for it in market.instance_types if it.name == "m6i.4xlarge")
    zone, zone_id = market.zones[0]
    reservation = replace(
        _reservation(40), instance_type=reserved.name, zone=zone, zone_id=zone_id
    )
    rng = random.Random(_SEED)
    demands = []
    for number in range(_WORKLOADS):
        requests = Resources.of(
            {"cpu": rng.randrange(250, 4_000, 50), "memory": rng.randrange(1, 17) << 29}
        )
        workload = Workload(
            teams[number % len(teams)].name, f"w-{number}", 1, _REPLICAS, requests
        )
        demands.append(Demand(workload, _REPLICAS, _START))
    snapshot = Snapshot(
        instance_types=market.instance_types,
        reservations=(reservation,),
        node_pools=(node_pool("default"),),
        node_classes=(node_class(market.zones, (reservation.id,)),),
        demands=tuple(demands),
        teams=tuple(teams),
    )
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(_RUNS):
        for with_teams in (True, False):
            given = snapshot if with_teams else replace(snapshot, teams=())
            started = time.process_time()
            solve(given, now=_START, policy=_POLICY)
            times[with_teams].append(time.process_time() - started)
    return min(times[True]) / min(times[False])


def jains_index(
    teams: Sequence[Team], used: Mapping[str, int], wanted: Mapping[str, int]
) -> float:
    """Return Jain's index of what each team has against its water level; 1 is perfectly fair."""
    level = water_level(teams, wanted)
    parts = [used[team.name] / level[team.name] for team in teams if level[team.name] > 0]
    if any(parts):
        return sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts))
    return 1.0


def water_level(teams: Sequence[Team], wanted: Mapping[str, int]) -> Mapping[str, float]:
    """Return what each team would have if units could be divided: its own first, then loans up to one level."""
    owned = {
        team.name: float(min(wanted[team.name], team.quotas[0].nominal_units))
        for team in teams
    }
    left, loans = UNITS - sum(owned.values()), dict.fromkeys(owned, 0.0)
    hungry = [team for team in teams if wanted[team.name] > owned[team.name]]
    while hungry and left > 1e-9:
        weight = sum(team.weight for team in hungry)
        lift = min(
            left / weight,
            min(
                (wanted[it.name] - owned[it.name] - loans[it.name]) / it.weight
                for it in hungry
            ),
        )
        for team in hungry:
            loans[team.name] += lift * team.weight
        left -= lift * weight
        hungry = [
            it for it in hungry if wanted[it.name] - owned[it.name] - loans[it.name] > 1e-9
        ]
    return {name: owned[name] + loans[name] for name in owned}


def _workload(team_name: str) -> Workload:
    return Workload(team_name, "job", 1, 1, Resources.of({"cpu": 180_000}))


def _reservation(free: int) -> CapacityReservation:
    return CapacityReservation(
        id="cr-shared",
        owner_id="111122223333",
        instance_type=_TYPE.name,
        zone="us-east-1a",
        zone_id="use1-az1",
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=UNITS,
        available_count=free,
        tags={"purpose": "shared"},
        free_units=free,
    )
