"""``python -m reservoir``, and the installed executable."""

import errno
import gc
import os
import sys
from typing import Final, NoReturn

from reservoir.cli.app import app
from reservoir.cli.console import FAILED

# Modules and rows are made by the ten thousand and stay until the end: a collector that looks through all of them for
# every 700 that are new takes a fifth of a command's time. Those that go on, like `top`, still get rid of cycles.
_COLLECTED_EVERY: Final = 100_000
_UNWRITTEN: Final = frozenset({errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})


def run() -> None:
    """Run the command line under the name that completion knows."""
    gc.set_threshold(_COLLECTED_EVERY)
    try:
        app(prog_name="reservoir", standalone_mode=True)
    except OSError as error:
        _end_unwritten(error)
    except SystemExit:
        try:
            sys.stdout.flush()
        except OSError as error:
            _end_unwritten(error)
        raise


def _end_unwritten(error: OSError) -> NoReturn:
    """End when what a command prints cannot be written, because a disk is full, say; raises other errors."""
    if error.filename is not None or error.errno not in _UNWRITTEN:
        raise error
    # What is left in the buffer would be tried again, and fail again, when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.stderr.write(f"cannot write the output: {error.strerror}\n")
    raise SystemExit(FAILED) from None


if __name__ == "__main__":
    run()
