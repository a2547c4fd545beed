"""Reading the heaviest demand that the bounds admit: what one planning pass holds of it, and when all was looked at.

``neighbours-waiting-heavy``: 100 teams, each with as many workloads waiting as its part of all that may wait is, and as
large as a workload may be: 3 GiB in 50,000 rows. ``neighbours-waiting-many``: as many, with a kilobyte each, and two
teams that came first with 20,000. Beside them waits one small workload of another team, which nothing names. The rows
lie in a stand-in for DynamoDB's client that makes them when they are read.

A pass reads as the planner does: the listing, and then what it plans for once more. ``listing`` is the share of it that
reads the keys of all that waits, ``first`` is a process's first pass. Nothing is placed, so that all of it waits on.
"""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final
from zlib import crc32

from lab.bench.harness import fresh, peak_rss_mib
from lab.bench.scheduling.neighbours import world
from lab.calibration import Figures
from lab.fakes.system import START, ManualClock
from lab.fakes.values import workload, workload_record
from reservoir.adapters.dynamodb.table import DATA, Attributes
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore, row_of
from reservoir.core.model.team import CEILINGS, WAITING_OF_ALL
from reservoir.core.model.workload import Demand
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.sharing.reading_turns import ReadingTurns
from reservoir.manifests.kinds.workload_bounds import MOST_STORED_BYTES
from reservoir.names import KEY
from reservoir.ports.state import WorkloadRecord
from reservoir.runtime.garbage import collection_paused

_TEAMS: Final = 100
_PART: Final = WAITING_OF_ALL // _TEAMS
_FULL: Final = CEILINGS.waiting_workloads or 0
_PAGE_ENTRIES: Final = 16_000  # of the index, in a page of 1 MB
_SMALL: Final = "small/job"
_PASSES_MAX: Final = 200
_TEMPLATES: Final = 20
_TEMPLATE: Final = "team-000/template"
# bytes of a workload, and how many wait of each team
_KINDS: Final[Mapping[str, tuple[int, Sequence[int]]]] = {
    "heavy": (MOST_STORED_BYTES, [_PART] * _TEAMS),
    "many": (1_000, [_FULL, _FULL, *[_PART] * (_TEAMS - 2)]),
}


def cases() -> Sequence[str]:
    """Return one case a kind."""
    return [f"neighbours-waiting-{kind}" for kind in _KINDS]


def run(case: str) -> Figures:
    """Measure one case in a process of its own."""
    return fresh("lab.bench.functions.waiting_demand:measure", case)


def measure(case: str) -> Figures:
    """Return what passes hold and take, until every workload was read."""
    size, counts = _KINDS[case.rpartition("-")[2]]
    rows = Rows(size, counts)
    client: Any = rows
    clock = ManualClock()
    store = DynamoDbWorkloadStore(client, "w", clock)
    turns = ReadingTurns()
    left = set(rows.keys)
    took_s: list[float] = []
    most_rows = with_small = 0
    gc.disable()
    while left and len(took_s) < _PASSES_MAX:
        now = START + timedelta(minutes=len(took_s))
        with collection_paused():
            began_s = time.process_time()
            turns.begin(now)
            read = store.read_waiting(lambda keys: turns.reading(keys, (), lambda: str))
            keys = {record.key for record in read}
            store.get_placed(keys, {})
            took_s.append(time.process_time() - began_s)
        left -= keys
        most_rows = max(most_rows, len(keys))
        with_small += _SMALL in keys
    return {
        "workloads": len(rows.keys),
        "stored_mib": len(rows.keys) * size >> 20,
        "passes_until_all_were_read": len(took_s),
        "passes_that_read_the_small_one": with_small,
        "rows_in_a_pass": most_rows,
        "first_pass_cpu_s": round(took_s[0], 2),
        "pass_longest_cpu_s": round(max(took_s), 2),
        "peak_mib": peak_rss_mib(),
    }


@dataclass
class Rows:
    """As much of DynamoDB's client as the listing of what waits uses."""

    size: int
    counts: Sequence[int]
    keys: list[str] = field(init=False)
    _templates: Sequence[Attributes] = field(init=False)

    def __post_init__(self) -> None:
        """Name the rows, and write some of them."""
        self.keys = []
        for team, count in enumerate(self.counts):
            self.keys += [f"team-{team:03d}/w-{number:05d}" for number in range(count)]
        self.keys.append(_SMALL)
        self._templates = [row_of(record) for record in records(self.size)]

    def get_paginator(self, operation: str) -> "Rows":
        """Return itself: it serves one operation."""
        assert operation == "scan"
        return self

    def paginate(self, **_scan: object) -> Iterator[dict[str, Any]]:
        """Yield the index of revisions."""
        for start in range(0, len(self.keys), _PAGE_ENTRIES):
            page = self.keys[start : start + _PAGE_ENTRIES]
            entries = [{"id": {"S": key}, "revision": {"N": "1"}} for key in page]
            yield {"Items": entries, "ScannedCount": len(entries)}

    def batch_get_item(self, **request: Any) -> Any:
        """Return rows, each with a text of its own."""
        ((table, wanted),) = request["RequestItems"].items()
        rows = [self._row(key["id"]["S"]) for key in wanted["Keys"]]
        return {"Responses": {table: rows}, "UnprocessedKeys": {}}

    def _row(self, key: str) -> Attributes:
        row = self._templates[crc32(key.encode()) % len(self._templates)]
        written = row[DATA]["S"].replace(_TEMPLATE, key)
        return {**row, KEY: {"S": key}, DATA: {"S": written}}


def records(size: int) -> Iterator[WorkloadRecord]:
    """Yield workloads that have so many bytes, as many of them in constraints as there may be."""
    is_large = size == MOST_STORED_BYTES
    found = (
        world("terms", _TEMPLATES).demands if is_large else [Demand(workload(), 1, START)]
    )
    for demand in found:
        bare = replace(demand.workload, annotations={"note": ""})
        padding = "x" * (size - len(dumps(bare)))
        wanted = replace(bare, annotations={"note": padding})
        yield replace(workload_record(), key=_TEMPLATE, workload=wanted)
