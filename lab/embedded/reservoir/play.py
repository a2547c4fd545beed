"""``make play``: Reservoir on an embedded AWS, kept up until Ctrl-C, for the command line and for any AWS tool."""

import argparse
import shlex
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, TextIO

from lab.embedded.client import ControlError
from lab.embedded.keep.folder import KeptStateError
from lab.embedded.reservoir.assembly import ROOT
from lab.embedded.reservoir.example import EXAMPLES, set_up
from lab.embedded.reservoir.stack import DeployedReservoir, Report

BLOCK_ENDS_IN: Final = timedelta(days=3)  # time enough to try things
# Tutorials buy a block.
PLAY_SETTINGS: Final = {
    "purchaseCeilingUsd": "10000",
    "purchaseCeilingUsdPerMonth": "15000",
}
FIRST: Final = EXAMPLES / "first.yaml"


def main(
    arguments: Sequence[str] | None = None,
    out: TextIO = sys.stdout,
    progress: TextIO = sys.stderr,
) -> int:
    """Deploy, say where everything is, and wait for Ctrl-C or SIGTERM."""
    options = _parse(arguments)
    started = time.monotonic()
    # A script that starts it in the background has it ignore Ctrl-C: until it runs, nothing else could end it cleanly.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def report(line: str) -> None:
        progress.write(f"{time.monotonic() - started:5.1f} s  {line}\n")
        progress.flush()

    try:
        _play(options.keep, report, out)
    except (KeptStateError, ControlError) as error:
        progress.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        report("stopped before it ran; nothing was kept")
        return 130
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.embedded.reservoir", description=__doc__
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="go on with what is kept there; keep everything there at the end",
    )
    return parser.parse_args(arguments)


def _play(keep: Path | None, report: Report, out: TextIO) -> None:
    stopped = threading.Event()
    with DeployedReservoir(report, PLAY_SETTINGS, keep=keep) as reservoir:
        if reservoir.goes_on:
            report(
                f"went on with what is kept in {keep}, where it is {reservoir.aws.clock.now():%d %B %Y %H:%M:%S} UTC"
            )
        else:
            set_up(reservoir, report, BLOCK_ENDS_IN)
        # From here on a Ctrl-C, or a second one, lets things come to their end.
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stopped.set())
        report("it runs until Ctrl-C")
        out.write(guide(reservoir))
        out.flush()
        stopped.wait()
        if keep is not None:
            report(f"keeping everything in {keep}")
            reservoir.aws.keep()
        report("stopping")


def guide(reservoir: DeployedReservoir) -> str:
    """Return the settings for other terminals, and what to try with them."""
    exports = "\n".join(
        f"  export {name}={shlex.quote(value)}"
        for name, value in reservoir.variables().items()
    )
    return f"""
Reservoir runs on an embedded AWS. In another terminal, in {ROOT}:

  source .venv/bin/activate
{exports}

With these, the command line and every AWS tool speak to it. The policy is
examples/demo/policy.yaml. To try next:

  # what is there, and whether it is ready
  reservoir get reservations,pools,classes
  # what would happen to the first workload; then send it, and wait until it has a place
  reservoir plan -f {FIRST.relative_to(ROOT)}
  reservoir submit -f {FIRST.relative_to(ROOT)} --wait
  # where it runs, why, and what happened since
  reservoir get workloads,nodes -A
  reservoir explain workload trying/first
  reservoir events
  # ten minutes later at once (docs/embedded-aws.md tells what else there is)
  python -m lab.embedded.reservoir.meanwhile later 10m

"""
