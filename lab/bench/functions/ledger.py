"""The ledger under stress: planners that race, die and hear late; and Karpenter's counting in the same world.

``memory-*`` interleave single effects on simulated time (10^5 operations), ``dynamodb-*`` run threads against the
DynamoDB API of the embedded AWS (``long``: 10^5 operations), ``karpenter-2`` counts in the memory of two controllers.
Figures that must be 0: ``promised_twice`` (moments at which more units were promised than there are), ``leaks`` (units,
leases or replicas not given back after everything came to rest), ``refused`` without outsiders (launches for which EC2
had no unit).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from lab.bench.planners.ec2 import Chaos, SimulatedClock
from lab.bench.planners.karpenter import KarpenterWorld
from lab.bench.planners.threads import FastClock, ThreadedLedger
from lab.bench.planners.world import LedgerWorld
from lab.fakes.stores.state import MemoryState
from lab.local import ministack
from lab.local.stores import CLAIM_INDEXES, LISTING, WORKLOAD_INDEXES
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore

TOTALS: Final = (1, 2, 4, 8, 16, 32, 64)
OPERATIONS: Final = 100_000
THREADED_OPERATIONS: Final = 2_000
SEED: Final = 20260115


def cases() -> Sequence[str]:
    """Return the names of the cases."""
    return (
        *(f"ledger-memory-{planners}" for planners in (2, 8, 32)),
        "ledger-memory-8-churn",
        "ledger-memory-8-outsiders",
        *(f"ledger-dynamodb-{planners}" for planners in (2, 8, 32)),
        *(f"ledger-dynamodb-{planners}-long" for planners in (2, 8, 32)),
        "ledger-karpenter-2",
    )


def run(case: str) -> dict[str, object]:
    """Run one case."""
    _, kind, count, *variant = case.split("-")
    if kind == "karpenter":
        return _karpenter(int(count))
    if kind == "dynamodb":
        return _threads(
            int(count), OPERATIONS if "long" in variant else THREADED_OPERATIONS
        )
    chaos = Chaos()
    if "churn" in variant:
        chaos = Chaos(lifetime_s=400)
    if "outsiders" in variant:
        chaos = Chaos(outsider_every_s=30)
    return _memory(int(count), chaos, OPERATIONS)


def _memory(planners: int, chaos: Chaos, operations: int) -> dict[str, object]:
    clock = SimulatedClock()
    state = MemoryState(clock)
    world = LedgerWorld(
        (state.workloads, state.reservations, state.node_claims),
        clock,
        seed=SEED,
        planners=planners,
        totals=TOTALS,
        chaos=chaos,
        forget=lambda claim_id: state.claim_rows.pop(claim_id, None),
    )
    figures = world.run(operations)
    return {
        **_counts(figures),
        "promised_twice": figures.twice,
        "leaks": len(world.leaks()),
        "ledger_utilisation_percent": figures.ledger_utilisation_percent,
        "utilisation_percent": figures.utilisation_percent,
        "of_feasible_percent": figures.of_feasible_percent,
    }


def _threads(planners: int, operations: int) -> dict[str, object]:
    with ministack.running("dynamodb") as endpoint:
        dynamodb = ministack.client("dynamodb", endpoint)
        for name, indexes in (
            ("workloads", WORKLOAD_INDEXES),
            ("reservations", LISTING),
            ("claims", CLAIM_INDEXES),
        ):
            ministack.create_table(dynamodb, name, indexes=indexes)
        clock = FastClock()
        stores = (
            DynamoDbWorkloadStore(dynamodb, "workloads", clock),
            DynamoDbReservationStore(dynamodb, "reservations", "claims", clock),
            DynamoDbNodeClaimStore(
                dynamodb,
                node_claims_table="claims",
                reservations_table="reservations",
                workloads_table="workloads",
                clock=clock,
            ),
        )
        ledger = ThreadedLedger(stores, clock, totals=(4, 16, 64), seed=SEED)
        figures = ledger.run(planners, operations)
    return {
        "operations": figures.operations,
        "commits": figures.commits,
        "conflicts": figures.conflicts,
        "deaths": figures.deaths,
        "promised_twice": figures.twice,
        "leaks": figures.leaks,
        "run_s": figures.seconds,
    }


def _karpenter(controllers: int) -> dict[str, object]:
    world = KarpenterWorld(seed=SEED, controllers=controllers, totals=TOTALS, chaos=Chaos())
    figures = world.run(OPERATIONS)
    return {**_counts(figures), "utilisation_percent": figures.utilisation_percent}


def _counts(figures: Any) -> dict[str, object]:
    shown = ("operations", "commits", "conflicts", "launches", "refused", "deaths")
    return {
        name: value for name, value in dataclasses.asdict(figures).items() if name in shown
    }
