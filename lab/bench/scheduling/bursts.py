"""What planning a burst in parts costs: single replicas that arrive over two seconds, through the planner as it is.

The planner waits a little while demand keeps arriving (``reservoir.usecases.provisioning.provision``). Its use case
runs on stores in memory and a clock that only pauses and passes move on. A pass takes as long as ``latency-on-paper``
says of one (``PASS_S``). Compared are the prices of all nodes with those of one plan for everything; overhead included.
"""

import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.ladder import ZONES, diverse, ladder
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_class import Subnet
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import Workload
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.provisioning.share_demand import Woken

REPLICAS: Final = 160
BURST_S: Final = 2.0
PASS_S: Final = 0.14
SEEDS: Final = range(5)
_SHAPES: Final = 40
_POLICY: Final = SchedulingPolicy(with_certificate=True)
_MARKETS: Final = ("spot", "on-demand")


def cases() -> Sequence[str]:
    """Return Karpenter's mix on its ladder, and shapes of work on EC2's types."""
    return ["burst-diverse", "burst-catalogue"]


def run(case: str) -> dict[str, object]:
    """Plan each seed's replicas as they arrive, and all at once."""
    ratios, passes = [], []
    for seed in SEEDS:
        types, zones, workloads = _made(case, seed)
        arriving = _World(types, zones, _spread(workloads, seed))
        at_once = _World(types, zones, [(0.0, workload) for workload in workloads])
        ratios.append(arriving.plan_all() / at_once.plan_all())
        passes.append(arriving.passes)
    return {
        "replicas": REPLICAS,
        "seeds": len(SEEDS),
        "cost_over_at_once": round(statistics.median(ratios), 4),
        "cost_over_at_once_worst": round(max(ratios), 4),
        "plans": max(passes),
    }


def _made(
    case: str, seed: int
) -> tuple[Sequence[InstanceType], Sequence[tuple[str, str]], list[Workload]]:
    if case == "burst-diverse":
        return ladder(), ZONES, _singles(diverse(REPLICAS, seed))
    catalogue = ec2_catalogue()
    mix = mix_snapshot(Mix(REPLICAS, _SHAPES, reserved_percent=0, seed=seed))
    templates = [item.workload for item in mix.demands for _ in range(item.pending_count)]
    return catalogue.instance_types, catalogue.zones, _singles(templates)


def _singles(templates: Iterable[Workload]) -> list[Workload]:
    return [
        replace(it, name=f"single-{number:03}", replicas=1)
        for number, it in enumerate(templates)
    ]


def _spread(workloads: Sequence[Workload], seed: int) -> list[tuple[float, Workload]]:
    numbers = random.Random(seed)
    return sorted(
        ((numbers.uniform(0, BURST_S), it) for it in workloads), key=lambda each: each[0]
    )


class _World(PlanningWorld):
    """A planner and what arrives. Seconds count from the first replica."""

    def __init__(
        self,
        types: Sequence[InstanceType],
        zones: Sequence[tuple[str, str]],
        arrivals: Sequence[tuple[float, Workload]],
    ) -> None:
        super().__init__()
        self.environment.found_subnets = tuple(
            Subnet(f"subnet-{zone}", zone, key, 60_000) for zone, key in zones
        )
        self.ready(pool=node_pool_manifest(capacity_types=_MARKETS))
        self.state.offerings.save_catalogue(types)
        self.passes = 0
        self._coming = [
            (self.clock.now() + timedelta(seconds=at - arrivals[0][0]), it)
            for at, it in arrivals
        ]
        self._woken: list[str] = []

    def pause(self, seconds: float) -> None:
        """Let time pass, and what arrives meanwhile arrive."""
        super().pause(seconds)
        self._arrive(self.clock.now())

    def _arrive(self, now: datetime) -> None:
        while self._coming and self._coming[0][0] <= now:
            at, workload = self._coming.pop(0)
            record = WorkloadRecord(
                workload.key, 1, 0, workload, submitted_at=at, pending_since=at
            )
            self.state.workloads.put(record, expected_revision=None)
            self._woken.append(workload.key)

    def plan_all(self) -> float:
        """Plan until everything has a place; return what its nodes cost an hour, in USD."""
        planner = self.provisioner(policy=_POLICY)
        self._arrive(self.clock.now())
        while self._woken or self._coming:
            named, self._woken = self._woken, []
            if named:
                report = planner.run(Woken(frozenset(named)))
                assert not report.unplaced_count, report
                self.passes += bool(report.plan_ids)
            self.pause(PASS_S)
        claims = self.state.node_claims.list_live()
        assert (
            sum(placed.count for claim in claims for placed in claim.placements) == REPLICAS
        )
        prices = sum(claim.price_atto_usd_per_hour for claim in claims) / 10**18
        return prices + len(claims) * _POLICY.node_overhead_micro_usd_per_hour / 10**6
