"""The heaviest demand that the bounds admit is read in portions, whatever it is."""

import pytest

from lab.bench.functions import waiting_demand
from lab.bench.functions.waiting_demand import measure
from reservoir.manifests.kinds.workload_bounds import MOST_STORED_BYTES, excesses


def test_rows_are_as_large_as_workloads_may_be() -> None:
    for record in waiting_demand.records(MOST_STORED_BYTES):
        assert record.workload is not None
        assert {field for field, _ in excesses(record.workload)} <= {"metadata.annotations"}


def test_all_of_it_is_read_after_a_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        waiting_demand, "_KINDS", {"heavy": (MOST_STORED_BYTES, [40] * 100)}
    )
    figures = measure("neighbours-waiting-heavy")
    assert figures["passes_until_all_were_read"] == 3
    assert figures["passes_that_read_the_small_one"] == 3
    assert figures["rows_in_a_pass"] == 1_600, "64 MiB and a page at most"
