"""Play the demo: ``python -m lab.demo``.

Exit status: 0 when EC2's state is as it must be, 1 when a rule was broken, 75 when this machine could not keep up, 70
when the demo itself failed.
"""

import sys
import time

from rich.console import Console

from lab.demo.run import Demo, conclude
from lab.embedded.reservoir import KEPT


def main() -> int:
    """Play it once."""
    console = Console()
    started = time.monotonic()

    def report(line: str) -> None:
        passed = f"[dim]{time.monotonic() - started:5.1f} s[/]"
        console.print(
            f"{passed}  {line}", highlight=False, no_wrap=True, overflow="ellipsis"
        )

    return conclude(Demo(console, report, KEPT), console, KEPT)


if __name__ == "__main__":
    sys.exit(main())
