"""``python -m reservoir``, and the installed executable."""

import gc
from typing import Final

from reservoir.cli.app import app

# Modules and rows are made by the ten thousand and stay until the end: a collector that looks through all of them for
# every 700 that are new takes a fifth of a command's time. Those that go on, like `top`, still get rid of cycles.
_COLLECTED_EVERY: Final = 100_000


def run() -> None:
    """Run the command line under the name that completion knows."""
    gc.set_threshold(_COLLECTED_EVERY)
    app(prog_name="reservoir")


if __name__ == "__main__":
    run()
