"""Let something happen outside on ``make play``: time passes, or somebody else does something in EC2.

    python -m lab.embedded.reservoir.meanwhile later 61m
    python -m lab.embedded.reservoir.meanwhile until 2026-12-01T11:30Z
    python -m lab.embedded.reservoir.meanwhile share_reservation '{"instance_type": "g6.2xlarge", "count": 2, …}'

``later`` and ``until`` return when all that was due in that time, and what it caused, is done. Of longer times only the
last five minutes are played minute by minute; before them what recurs happens once. Anything else is an order to the
EC2 emulation (docs/ec2-emulation.md); its answer is printed.
"""

import argparse
import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Final

from lab.embedded.client import Clock, Control, ControlError
from lab.embedded.settings import CONTROL_VARIABLE

PLAYED: Final = timedelta(minutes=5)
_SPAN: Final = re.compile(r"([0-9]{1,5})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.embedded.reservoir.meanwhile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", help="later, until, or an order to the EC2 emulation")
    parser.add_argument("how", help="a length of time, an instant, or a JSON object")
    asked = parser.parse_args()
    url = os.environ.get(CONTROL_VARIABLE)
    if url is None:
        sys.stderr.write(
            f"{CONTROL_VARIABLE} is not set: paste the settings that make play printed\n"
        )
        return 2
    try:
        sys.stdout.write(f"{_done(Control(url), asked.what, asked.how)}\n")
    except (ControlError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _done(control: Control, what: str, how: str) -> str:
    """Let it happen; return what is printed."""
    clock = Clock(control)
    if what == "later":
        return _advanced(clock, _span(how))
    if what == "until":
        return _advanced(clock, _instant(how) - clock.now())
    return json.dumps(control.call("POST", f"/ec2/{what}", json.loads(how)))


def _advanced(clock: Clock, step: timedelta) -> str:
    if step < timedelta(0):
        raise ValueError("that is past")
    played = min(step, PLAYED)
    clock.advance(step - played, coalesce=True)
    return f"it is {clock.advance(played):%Y-%m-%dT%H:%M:%SZ}"


def _span(text: str) -> timedelta:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a duration such as 45s, 30m, 6h or 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


if __name__ == "__main__":
    sys.exit(main())
