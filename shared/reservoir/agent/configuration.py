"""The agent's file on a node: its deployment, and the command of each workload.

The node's owner sets the commands here; a message of demand never does.
"""

import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
_LOG_GROUP: Final = re.compile("[A-Za-z0-9._/#-]{1,512}")


class ConfigurationError(Exception):
    """The file lacks something or has something wrong."""


@dataclass(frozen=True, slots=True)
class Run:
    """The command for workloads whose ``namespace/name`` fits a pattern; times in seconds.

    ``per_node``: once for all replicas on the node, as launchers of training want it, instead of once for each.
    ``checkpoint`` is run when the node must go, before anything is stopped. ``gang``: only when all nodes of the
    workload are there, and know each other. ``image``: in a container, with ``container_options`` for its engine.
    ``user``: who runs command and checkpoint, by name; empty: who runs the agent, which also starts containers.
    """

    workload: str
    command: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    per_node: bool = False
    ready_after_s: float = 5.0
    gang: bool = False
    image: str = ""
    container_options: tuple[str, ...] = ()
    user: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The whole file.

    ``poll_s``: how often the agent asks while nothing happens. A node hears of its drain that much later, and pays for
    each question (docs/nodes.md): with a step a second, four seconds are five at most.
    """

    node_claims_table: str
    reports_queue_url: str
    runs: tuple[Run, ...]
    poll_s: float = 4.0
    log_folder: Path = field(default=Path("/var/log/reservoir"))
    log_group: str = (
        ""  # of CloudWatch Logs, where what commands write is copied to; empty: nowhere
    )

    def run_for(self, workload_key: str) -> Run | None:
        """Return the first that fits a workload."""
        return next(
            (run for run in self.runs if fnmatchcase(workload_key, run.workload)), None
        )


def read_configuration(path: Path) -> Configuration:
    """Read the file.

    Raises
    ------
    ConfigurationError
        It is no TOML, or something is missing, unknown or of another type.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        runs = tuple(_run(table) for table in content.pop("run", ()))
        if "log_folder" in content:
            content["log_folder"] = Path(content["log_folder"])
        found = Configuration(runs=runs, **content)
    except (OSError, tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if found.log_group and not _LOG_GROUP.fullmatch(found.log_group):
        raise ConfigurationError(
            f"{path}: log_group must be the name of a log group, not {found.log_group!a}"
        )
    if not found.runs:
        raise ConfigurationError(f"{path}: there is no [[run]]")
    return found


def _run(table: Any) -> Run:
    if not isinstance(table, dict):
        raise TypeError("run must be tables: [[run]]")
    for key in {"command", "checkpoint", "container_options"} & table.keys():
        table[key] = _words(key, table[key])
    found = Run(**table)
    if not (found.command or found.image):
        raise ValueError("run needs a command, an image or both")
    if found.container_options and not found.image:
        raise ValueError("container_options need an image")
    if found.user and found.image:
        raise ValueError(
            "user is for commands outside containers; container_options can say --user"
        )
    return found


def _words(key: str, value: Any) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(word, str) for word in value)
    ):
        raise ValueError(
            f"{key} must be a list of words, such as {key} = ['/opt/run', '--fast']"
        )
    return tuple(value)
