"""How long something takes is no matter of any test: a busy machine must not fail what an idle one passes."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCKS = {
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "time",
    "time_ns",
}
# What waits for another process, and gives up after minutes.
WAITING = {
    "lab/local/ministack.py",
    "lab/story/world.py",
    "tests/deployment/embedded_cdk.py",
    "tests/embedded/conftest.py",
    "tests/integrations/test_containers.py",
    "tests/integrations/test_slurm.py",
}


def readers_of_real_clocks() -> set[str]:
    """Return the files of the tests that read a clock of the ``time`` module."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in [
            *ROOT.glob("tests/**/*.py"),
            *ROOT.glob("lab/local/*.py"),
            *ROOT.glob("lab/story/*.py"),
        ]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in CLOCKS
        and isinstance(node.value, ast.Name)
        and node.value.id == "time"
    }


def test_only_what_waits_for_another_process_reads_a_real_clock() -> None:
    assert readers_of_real_clocks() == WAITING
