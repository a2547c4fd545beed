"""What a demo that failed leaves to look at: all logs, and the world as it was seen last."""

import json
import shutil
import tempfile
from collections import deque
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from lab.demo.observer import Observed

TIMED_OUT: Final = "Task timed out after"


class Logs(Protocol):
    """Where an embedded AWS keeps what was written."""

    @property
    def folder(self) -> Path:
        """Its private directory, once it is started."""
        ...

    @property
    def is_started(self) -> bool:
        """Whether there is such a directory."""
        ...

    def log(self) -> str:
        """Return what the emulator wrote."""
        ...


def timed_out(aws: Logs) -> list[str]:
    """Return the names of the functions of which an invocation was killed because its real time was over."""
    if not aws.is_started:
        return []
    logs = (aws.folder / "logs").glob("*/*.log")
    return sorted(
        {path.parent.name for path in logs if TIMED_OUT in path.read_text(errors="replace")}
    )


def keep_evidence(aws: Logs, seen: Observed | None, reason: str, under: Path) -> Path:
    """Copy the logs of the functions and of the emulator, and the last look at the world, to a new folder."""
    under.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-failed-", dir=under))
    (folder / "reason.txt").write_text(reason + "\n")
    (folder / "emulator.log").write_text(aws.log())
    if aws.is_started and (aws.folder / "logs").is_dir():
        shutil.copytree(aws.folder / "logs", folder / "functions")
    if seen is not None:
        (folder / "world.json").write_text(json.dumps(vars(seen), indent=1, default=_plain))
    return folder


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | deque):
        return sorted(value) if isinstance(value, set) else list(value)
    return str(value)
