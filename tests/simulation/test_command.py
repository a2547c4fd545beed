"""The command plays seeds, says how fast, and goes on where it was stopped."""

from pathlib import Path

import pytest

from lab.simulation.__main__ import code, main, pace


def ran(done: Path, seeds: int, steps: int = 60) -> int:
    return main(
        [
            "--seeds",
            str(seeds),
            "--steps",
            str(steps),
            "--processes",
            "1",
            "--done",
            str(done),
        ]
    )


def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "seeds.txt"
    assert ran(done, 1) == 0
    with done.open("a", encoding="utf-8") as file:
        file.write("3 ")  # it was stopped while it wrote
    done.write_text(done.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    capsys.readouterr()
    assert ran(done, 3) == 0
    assert capsys.readouterr().out.startswith(
        "3 seeds of 60 steps (1 of them before), 0 failed\n"
    )
    assert [
        line
        for line in done.read_text(encoding="utf-8").splitlines()
        if line.endswith(code())
    ] == [f"{seed} 60 {code()}" for seed in (1, 2, 3)]
    assert ran(done, 3) == 0
    assert capsys.readouterr().out == "3 seeds of 60 steps (3 of them before), 0 failed\n"


def test_seeds_of_other_code_or_other_length_are_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "seeds.txt"
    done.write_text(f"1 60 000000000000\n1 2000 {code()}\n", encoding="utf-8")
    assert ran(done, 1) == 0
    assert capsys.readouterr().out.startswith("1 seeds of 60 steps, 0 failed\n")


def test_pace_is_of_one_core_and_beside_its_calibration() -> None:
    assert pace([0.2, 0.4], 0.02) == (
        "200 seeds a minute on one core: 0.300 s each, which is 15.0 times the calibration of 0.02 s"
    )
