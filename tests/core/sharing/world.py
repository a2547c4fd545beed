"""One block of whole-node work, and teams that want it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from reservoir.core.checker import Violation, check
from reservoir.core.model.node_class import CapacityReservationSelectorTerm
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.team import Quota, Team
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import (
    NOW,
    POLICY,
    RESERVED,
    fx_type,
    markets,
    node,
    plain,
    pool,
    reservation,
)

TERM: Final = CapacityReservationSelectorTerm(tags={"purpose": "training"})
TYPE: Final = fx_type("p5", 8, 8, pods=10, price=1_000_000)


def team(name: str, nominal: int | None = 0, **changes: Any) -> Team:
    """A team whose namespace has its name; ``nominal`` None: without a quota."""
    quota = {
        key: changes.pop(key)
        for key in ("borrowing_limit_units", "lending_limit_units")
        if key in changes
    }
    quotas = () if nominal is None else (Quota((TERM,), nominal, **quota),)
    return Team(name, namespaces=(name,), quotas=quotas, **changes)


def wants(
    name: str,
    replicas: int,
    *,
    job: str = "job",
    waiting: timedelta = timedelta(),
    **changes: Any,
) -> Demand:
    """Demand of so many whole nodes."""
    wanted = Workload(name, job, 1, replicas, Resources.of({"cpu": 7_000}))
    return Demand(replace(wanted, **changes), replicas, NOW - waiting)


def world(
    teams: Iterable[Team],
    demands: Iterable[Demand] = (),
    used: Mapping[str, int] | None = None,
    *,
    units: int = 8,
    reservations: int = 1,
    **changes: Any,
) -> Snapshot:
    """``units`` in each reservation; ``used`` by namespace are on running nodes of the first ones."""
    asked = tuple(demands)
    nodes: list[Node] = []
    workloads = {demand.workload.key: demand.workload for demand in asked}
    places = [f"cr-{number}" for number in range(reservations) for _ in range(units)]
    for name, count in (used or {}).items():
        running = wants(name, count, job="runs").workload
        workloads[running.key] = running
        for number in range(count):
            found = node(
                f"{name}-{number}",
                TYPE,
                capacity_type=RESERVED,
                reservation_id=places.pop(0),
            )
            on_it = (PlacedReplicas(running.key, 1),)
            nodes.append(
                replace(
                    found,
                    placements=on_it,
                    used=running.requests + Resources.of({"pods": 1}),
                )
            )
    free = Counter(places)
    blocks = [
        reservation(
            f"cr-{number}",
            "p5",
            units,
            free_units=free[f"cr-{number}"],
            tags={"purpose": "training"},
        )
        for number in range(reservations)
    ]
    snapshot = plain(
        TYPE, reservations=blocks, nodes=tuple(nodes), demands=asked, workloads=workloads
    )
    return replace(
        snapshot,
        **{
            "teams": tuple(teams),
            "node_pools": (pool("default", markets(RESERVED)),),
            **changes,
        },
    )


def planned(snapshot: Snapshot) -> Plan:
    """Return a plan that keeps every rule."""
    plan = solve(snapshot, now=NOW, policy=POLICY)
    assert violations(snapshot, plan) == ()
    return plan


def violations(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
    return check(snapshot, plan, now=NOW, policy=POLICY)


def units_of(plan: Plan) -> dict[str, int]:
    """Return how many new units each team gets."""
    found: Counter[str] = Counter()
    for launch in plan.launches:
        (name,) = {placed.workload_key.partition("/")[0] for placed in launch.placements}
        found[name] += launch.count
    return dict(found)
