"""The benches' own machinery."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.bench.__main__ import benches, main
from lab.bench.harness import fresh, in_calibrations, medians
from lab.bench.scheduling import scheduler
from lab.bench.worlds.catalogue import GPU, ec2_catalogue
from lab.bench.worlds.ladder import price_micro_usd
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.serialisation.json_codec import dumps, loads


def test_times_and_sizes_are_medians() -> None:
    runs = [
        {"plan_s": time, "peak_rss_mib": 10, "nodes": 3, "prices": "x"}
        for time in (3.0, 1.0, 2.0)
    ]
    assert medians(runs) == {"plan_s": 2.0, "peak_rss_mib": 10.0, "nodes": 3, "prices": "x"}


def test_in_calibrations_the_least_counts_as_of_a_calibration() -> None:
    assert medians(
        [{"plan_cpu_in_calibrations": multiple} for multiple in (12.0, 10.5, 11.0)]
    ) == {"plan_cpu_in_calibrations": 10.5}


def test_processor_times_are_also_told_in_calibrations() -> None:
    calibration: Figures = {"calibration_python_s": 0.02, "calibration_numpy_s": 0.01}

    told = in_calibrations({"plan_cpu_s": 0.5, "plan_s": 0.9, "nodes": 3}, calibration)

    assert told == {
        "plan_cpu_s": 0.5,
        "plan_s": 0.9,
        "nodes": 3,
        "plan_cpu_in_calibrations": 25.0,
        **calibration,
    }


def test_a_bench_may_have_timed_a_calibration_of_its_own() -> None:
    told = in_calibrations(
        {"plan_cpu_s": 0.5, "plan_cpu_in_calibrations": 20.0},
        {"calibration_python_s": 0.02},
    )

    assert told == {
        "plan_cpu_s": 0.5,
        "plan_cpu_in_calibrations": 20.0,
        "calibration_python_s": 0.02,
    }


def test_a_calibration_takes_time_of_both_kinds() -> None:
    found = fresh("lab.calibration:calibrate")

    assert set(found) == {"calibration_python_s", "calibration_numpy_s"}
    assert all(isinstance(value, float) and value > 0 for value in found.values())


def test_a_plan_that_differs_between_runs_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nodes differs"):
        medians([{"nodes": 3}, {"nodes": 4}])


def where() -> dict[str, object]:
    return {"pid": os.getpid()}


def test_a_fresh_process_is_another_process() -> None:
    found = fresh("tests.bench.test_harness:where")
    assert found["pid"] != os.getpid()


def test_the_scheduler_bench_is_found_and_helpers_are_not() -> None:
    names = [name for name, _ in benches()]
    assert "scheduler" in names
    assert not {"worlds", "harness", "karpenter"} & set(names)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-bench"]) == 2
    assert "no-such-bench" in capsys.readouterr().err


def test_the_issue_names_its_cases() -> None:
    wanted = {
        "diverse-10000",
        "diverse-20000",
        "preference-4000",
        "catalogue-10000",
        "catalogue-100000",
        "shapes-1000",
    }
    assert wanted | {"existing-5000", "scaling", "cold-start"} <= set(scheduler.cases())


def test_one_json_object_a_line() -> None:
    command = [sys.executable, "-m", "lab.bench", "diverse-50"]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own module
    figures = json.loads(finished.stdout)
    assert (figures["bench"], figures["case"]) == ("scheduler", "diverse-50")
    assert figures["port_nodes"] == 10
    assert figures["violations"] == figures["unplaced"] == 0
    assert {
        "first_plan_s",
        "peak_rss_mib",
        "cost_over_bound",
        "port_cost_over_bound",
        "port_loops",
    } <= figures.keys()


def test_the_ladder_has_karpenters_prices() -> None:
    assert price_micro_usd(1, 2 * 2**30) == 314_748
    assert price_micro_usd(400, 800 * 2**30) == 125_899_346


def test_the_catalogue_is_real_and_large() -> None:
    catalogue = ec2_catalogue()
    names = {item.name: item for item in catalogue.instance_types}
    assert 800 <= len(names) <= 850
    assert sum(len(item.offerings) for item in names.values()) > 7000
    assert names["p5.48xlarge"].capacity[GPU] == 8
    assert "synthetic" in catalogue.prices


def test_prices_come_from_a_file_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"m5.large": 0.096, "no.such": 1}))
    monkeypatch.setenv("RESERVOIR_BENCH_PRICES", str(prices))
    catalogue = ec2_catalogue(seed=99)
    assert [item.name for item in catalogue.instance_types] == ["m5.large"]
    assert catalogue.instance_types[0].on_demand_price_micro_usd_per_hour == 96_000
    assert "prices.json" in catalogue.prices


def test_the_same_seed_makes_the_same_world_and_json_keeps_it() -> None:
    text = dumps(mix_snapshot(Mix(300, shapes=30, existing=5)))
    assert text == dumps(mix_snapshot(Mix(300, shapes=30, existing=5)))
    assert dumps(loads(Snapshot, text)) == text
    assert text != dumps(mix_snapshot(Mix(300, shapes=30, existing=5, seed=1)))
