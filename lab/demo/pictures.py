"""Draw the pictures of ``docs/pictures`` anew, from real runs against the demo's account: ``make pictures``."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from lab.demo.terminal import drawn, run_on_terminal
from lab.embedded.reservoir import ROOT, DeployedReservoir
from lab.embedded.reservoir.example import set_up

FOLDER: Final = ROOT / "docs" / "pictures"
COLUMNS: Final = 118
BLOCK_ENDS_IN: Final = timedelta(hours=20)
_PACE_S: Final = 5.0
_LIMIT_S: Final = 900.0

# The name of a file, and what it shows.
PICTURES: Final[Mapping[str, Sequence[str]]] = {
    "status": ("status",),
    "reservations": ("get", "reservations"),
    "explain": ("explain", "workload", "research/finetune"),
    "plan": (
        "plan",
        "-f",
        "examples/demo/next.yaml",
        "--with",
        "2 p5.48xlarge in us-east-1b",
    ),
}


def main() -> None:
    """Deploy, let the demo's demand run, and draw."""
    with DeployedReservoir(_tell) as reservoir:
        titles = set_up(reservoir, _tell, BLOCK_ENDS_IN)
        reservoir.aws.ec2(
            "outsider_launch", capacity_reservation_id=titles.id_of("inference"), count=1
        )
        environment = reservoir.environment()
        _send(environment, "workloads.yaml", waiting=0)
        _send(environment, "next.yaml", waiting=1)
        FOLDER.mkdir(exist_ok=True)
        for name, arguments in PICTURES.items():
            written = run_on_terminal(arguments, environment, ROOT, COLUMNS)
            picture = FOLDER / f"{name}.svg"
            picture.write_text(
                drawn(f"reservoir {shlex.join(arguments)}", written), encoding="utf-8"
            )
            _tell(str(picture.relative_to(ROOT)))


def _send(environment: Mapping[str, str], file: str, waiting: int) -> None:
    """Submit workloads of the demo, and wait until only so many wait. Commands go by this machine's clock.

    Raises
    ------
    RuntimeError
        They wait for longer than they should.
    """
    path = f"examples/demo/{file}"
    _tell(f"submitting {path}")
    subprocess.run(  # noqa: S603 - our own program
        _command("submit", "-f", path),
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    limit_s = time.monotonic() + _LIMIT_S
    while _waiting(environment) != waiting:
        if time.monotonic() > limit_s:
            message = f"the workloads of {path} are not where they should be"
            raise RuntimeError(message)
        time.sleep(_PACE_S)


def _waiting(environment: Mapping[str, str]) -> int:
    """Return how many workloads do not run as a whole; none before there is any would be too early."""
    command = _command("get", "workloads", "-A", "-o", "json")
    answer = subprocess.run(  # noqa: S603 - our own
        command, cwd=ROOT, env=environment, check=True, capture_output=True
    )
    found: list[dict[str, Any]] = json.loads(answer.stdout)["items"]
    if found:
        return sum(item["status"]["placed"] < item["spec"]["replicas"] for item in found)
    return -1


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "reservoir", *arguments]


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
