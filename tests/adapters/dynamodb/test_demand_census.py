"""Who sent how much of late, and what waits: the same contract in memory and on DynamoDB."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import InTurn, ManualClock
from lab.fakes.values import workload_record
from lab.local import ministack
from lab.local.stores import WORKLOAD_INDEXES
from reservoir.adapters.dynamodb.demand_census import DynamoDbDemandCensus
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.ports.messaging import DAY, MINUTE, DemandCensus
from reservoir.ports.state import WorkloadStore

_names = itertools.count()


class Counted:
    """A census with the workloads that it counts, and its clock."""

    def __init__(
        self, census: DemandCensus, workloads: WorkloadStore, clock: ManualClock
    ) -> None:
        self.census, self.workloads, self.clock = census, workloads, clock


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def counted(request: pytest.FixtureRequest) -> Counted:
    clock = ManualClock()
    if request.param == "memory":
        workloads = MemoryState(clock).workloads
        return Counted(MemoryDemandCensus(workloads, clock), workloads, clock)
    dynamodb: Any = request.getfixturevalue("dynamodb")
    table = f"census-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes=WORKLOAD_INDEXES)
    return Counted(
        DynamoDbDemandCensus(dynamodb, table, clock, InTurn()),
        DynamoDbWorkloadStore(dynamodb, table, clock),
        clock,
    )


def test_each_is_counted_by_itself_until_its_time_is_over(counted: Counted) -> None:
    census = counted.census
    assert [census.add("Team a", MINUTE) for _ in range(3)] == [1, 2, 3]
    assert census.add("Team b", MINUTE) == 1
    assert census.add("Team a", DAY) == 1
    counted.clock.advance(seconds=60)
    assert (census.add("Team a", MINUTE), census.add("Team a", DAY)) == (1, 2)


def test_what_waits_is_listed_and_counts_are_no_workloads(counted: Counted) -> None:
    counted.census.add("Team a", timedelta(minutes=1))
    counted.workloads.put(workload_record("waits"), expected_revision=None)
    counted.workloads.put(workload_record("wants-none", replicas=0), expected_revision=None)
    assert list(counted.census.waiting_keys()) == ["research/waits"]
    assert [record.key for record in counted.workloads.list_needing_planning()] == [
        "research/waits"
    ]
