"""What EC2 refuses, code by code, on the deployed stack: within two minutes something else serves.

Each code of each market has a pool, a class and an instance type of its own, so that all of them are refused side by
side, as many teams would meet them. Codes are those of EC2's list and those that people met
(``tests/usecases/launching``); quotas of spot are left out, because one rests its whole market, for the other codes as
well.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final

import pytest

from lab.demo.observer import Observed
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.adapters import aws_errors
from reservoir.core.launching.launch_outcome import OF_THE_CLASS, TROUBLE_OF_A_POOL

pytestmark = pytest.mark.embedded

ZONE: Final = "us-east-1a"
SIZES: Final = ("large", "xlarge", "2xlarge", "4xlarge", "12xlarge", "24xlarge")
FAMILIES: Final = (
    "c5",
    "c5a",
    "c5d",
    "c6i",
    "c7i",
    "m5",
    "m5a",
    "m5d",
    "m6a",
    "m6i",
    "m7i",
    "r5",
    "r5a",
    "r5d",
    "r6i",
    "r7i",
)
WITHIN: Final = timedelta(minutes=2)
# One of these rests whole markets, and what spot refuses by them says nothing of a pool.
OF_ACCOUNTS: Final = aws_errors.QUOTA_CODES | aws_errors.PERMISSION_CODES
OF_POOLS: Final = (
    aws_errors.INSUFFICIENT_CAPACITY_CODES
    | aws_errors.TYPE_QUOTA_CODES
    | aws_errors.UNSUPPORTED_CODES
    | aws_errors.CONFIGURATION_CODES
    | {"SomethingThatNobodyKnows"}
) - OF_THE_CLASS
CODES: Final[Mapping[str, Sequence[str]]] = {
    "spot": sorted((OF_POOLS | TROUBLE_OF_A_POOL) - OF_ACCOUNTS),
    # A quota that a reservation meets says nothing of what is outside it.
    "reserved": sorted(
        (
            OF_POOLS
            | aws_errors.RESERVATION_EXHAUSTED_CODES
            | aws_errors.RESERVATION_UNUSABLE_CODES
            | aws_errors.QUOTA_CODES
        )
        - aws_errors.PERMISSION_CODES
        # of RunInstances: a fleet says that there is no capacity (docs/ec2-emulation.md)
        - {"InvalidCapacityReservationState.PendingActivation"}
    ),
}


class Case:
    """One code, and what is refused by it."""

    def __init__(self, number: int, code: str, instance_type: str, market: str) -> None:
        self.code, self.instance_type, self.market = code, instance_type, market
        self.name = f"{market}-{number}"
        self.key = f"story/{self.name}"
        self.subject = f"{code} on {market}"

    def policy(self) -> list[dict[str, Any]]:
        return one_type_pool(self.name, self.instance_type, [self.market, "on-demand"])


@pytest.fixture(scope="module")
def cases(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """Pools of one type each, whose first choice EC2 refuses by a code of its own."""
    offered = iter(f"{family}.{size}" for size, family in product(SIZES, FAMILIES))
    found: list[Case] = []
    for market, codes in CODES.items():
        manifests: list[dict[str, Any]] = []
        for number, code in enumerate(codes):
            case = Case(number, code, next(offered), market)
            found.append(case)
            manifests += case.policy()
            refused: dict[str, str] = {
                "instance_type": case.instance_type,
                "market": market,
            }
            if market == "reserved":
                reservation_id = world.reserve(
                    case.name, case.instance_type, ZONE, 1, purpose=case.name
                )
                refused = {"capacity_reservation_id": reservation_id}
            world.aws.ec2("refuse_launches", code=code, **refused)
        world.apply(write_manifests(tmp_path_factory.mktemp(market), manifests))
    world.discover()
    return found


def launched_at(world: World, cases: Sequence[Case]) -> dict[str, datetime]:
    """Return when the first node of each case was launched on demand, by market and code."""
    by_key = {case.key: case.subject for case in cases}
    found: dict[str, datetime] = {}
    for fact in world.events("Node Launched"):
        if fact["node"]["capacityType"] != "on-demand":
            continue
        for workload in fact["workloads"]:
            subject = by_key.get(f"{workload['namespace']}/{workload['name']}")
            if subject is not None:
                found.setdefault(subject, datetime.fromisoformat(fact["launchedAt"]))
    return found


def test_what_is_refused_is_bought_on_demand_within_two_minutes(
    world: World, cases: list[Case]
) -> None:
    started_at = world.aws.clock.now()
    for case in cases:
        world.send({"action": "submit", "workload": story_workload(case.name, 1, "1")})

    def all_run(_: Observed) -> bool:
        return len(launched_at(world, cases)) == len(cases)

    world.until("each has a node on demand", all_run)
    late = {
        subject: at - started_at
        for subject, at in launched_at(world, cases).items()
        if at - started_at > WITHIN
    }
    assert late == {}


def test_no_class_was_blocked_by_one_pools_refusal(world: World, cases: list[Case]) -> None:
    """Only the market may rest: the class launches on demand."""
    assert {fact["node"]["capacityType"] for fact in world.events("Node Launched")} == {
        "on-demand"
    }
    refused = {fact["code"] for fact in world.events("Launch Failed")}
    assert refused == {case.code for case in cases}, (
        "each was asked for first, and refused as was ordered"
    )
