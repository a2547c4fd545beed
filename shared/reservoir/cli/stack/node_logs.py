"""What commands on nodes have written, as far as agents copied it to the log group of the deployment's nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reservoir.adapters.aws_errors import map_client_errors


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line comes from; the agent names its streams so.

    ``process`` is the number of the process on its node, or ``checkpoint``.
    """

    workload_key: str
    node_claim: str
    process: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; ``at_ms`` is when the agent read it, in milliseconds since 1970."""

    id: str
    at_ms: int
    origin: Origin
    text: str


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """The log group."""

    client: Any
    group: str

    def lines(
        self, stream_prefix: str, *, since: datetime | None, newest_first: bool = False
    ) -> Iterator[LogLine]:
        """Yield the lines of all streams with a prefix, the oldest first unless it is said otherwise.

        Raises
        ------
        AwsError
            CloudWatch Logs refuses, or cannot be reached.
        """
        asked: dict[str, Any] = {
            "logGroupName": self.group,
            "logStreamNamePrefix": stream_prefix,
        }
        if since is not None:
            asked["startTime"] = int(since.timestamp() * 1000)
        if newest_first:
            asked["startFromHead"] = False
        while True:
            with map_client_errors():
                answer = self.client.filter_log_events(**asked)
            for event in answer["events"]:
                origin = _origin(event["logStreamName"])
                if origin is not None:
                    yield LogLine(
                        event["eventId"], event["timestamp"], origin, event["message"]
                    )
            if "nextToken" not in answer:
                return
            asked["nextToken"] = answer["nextToken"]


def _origin(stream: str) -> Origin | None:
    """Read a stream's name; None for one that no agent has made."""
    parts = stream.split("/")
    if len(parts) != 4:
        return None
    namespace, name, node_claim, process = parts
    return Origin(f"{namespace}/{name}", node_claim, process)
