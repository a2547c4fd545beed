"""``python -m infra.release FOLDER``: write a release."""

import argparse
import shutil
import sys
from pathlib import Path

from infra.release.write import write_release


def main(arguments: list[str] | None = None) -> int:
    """Write a release into a folder, which is emptied before."""
    parser = argparse.ArgumentParser(prog="python -m infra.release")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheel", type=Path, help="a wheel to put into it")
    chosen = parser.parse_args(arguments)
    shutil.rmtree(chosen.folder, ignore_errors=True)
    write_release(chosen.folder, wheel=chosen.wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
