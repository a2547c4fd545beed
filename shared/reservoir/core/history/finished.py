"""Workloads that have ended, from the history: where they ran, how long, what their nodes cost, how they ended.

A node's price is shared by the replicas that are on it at each moment, as in accounts, from its launch until its end.
The history has moments to the second and only what was published: accounts are exact, and by namespace only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from reservoir.core.history.past_event import PastEvent

COMPLETED: Final = "completed"
WITHDRAWN: Final = "withdrawn"
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Finished:
    """One run of a workload. ``places`` are types, markets and zones that it had nodes of.

    ``submitted_at`` and ``placed_at`` are None where they lie before the events that were read; then the cost is
    incomplete. ``failure_count`` are ends of commands that were started again; ``exit_code`` is of the last one.
    """

    namespace: str
    name: str
    ended_at: datetime
    how: str
    replicas: int
    submitted_at: datetime | None
    placed_at: datetime | None
    places: tuple[tuple[str, str, str], ...]
    micro_usd: int
    failure_count: int
    exit_code: int | None

    @property
    def ran_s(self) -> int | None:
        """From its first place to its end."""
        if self.placed_at is None:
            return None
        return (self.ended_at - self.placed_at) // timedelta(seconds=1)


@dataclass(slots=True, eq=False)
class _Run:
    """A run so far. ``cost`` is in micro-USD and seconds of an hour, so that nothing is rounded before the end."""

    key: tuple[str, str]
    submitted_at: datetime | None = None
    placed_at: datetime | None = None
    ended_at: datetime | None = None
    how: str = ""
    replicas: int = 0
    places: dict[tuple[str, str, str], None] = field(default_factory=dict)
    cost: int = 0
    failure_count: int = 0
    exit_code: int | None = None


@dataclass(slots=True)
class _ChargedNode:
    """A node, how many replicas of each run are on it, and until when it is charged; None: it is not launched yet."""

    price: int
    since: datetime | None = None
    replicas: dict[_Run, int] = field(default_factory=dict)

    def charge(self, until: datetime) -> None:
        """Charge the time until then to the runs, by their number of replicas."""
        total = sum(self.replicas.values())
        if self.since is not None and total:
            seconds = max(0, (until - self.since) // timedelta(seconds=1))
            for run, count in self.replicas.items():
                run.cost += self.price * seconds * count // total
        if self.since is not None:
            self.since = max(self.since, until)


def finished(events: Iterable[PastEvent], until: datetime) -> Sequence[Finished]:
    """Return the runs that have ended, in the order in which they ended.

    Parameters
    ----------
    events
        Oldest first.
    until
        Up to when nodes that still drain are charged.
    """
    runs = _Runs()
    for event in events:
        runs.read(event)
    return runs.ended(until)


class _Runs:
    """The runs that are known after some events."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Run] = {}
        self._nodes: dict[str, _ChargedNode] = {}
        self._over: list[_Run] = []

    def read(self, event: PastEvent) -> None:
        """Read one event; kinds that do not concern runs are passed over."""
        readers = {
            "Workload Accepted": self._accepted,
            "Workload Placed": self._placed,
            "Node Launched": self._launched,
            "Node Terminated": self._terminated,
            "Replica Failed": self._failed,
            "Replica Finished": self._finished,
        }
        reader = readers.get(event.detail_type)
        if reader is not None:
            reader(event.at, event.detail)

    def ended(self, until: datetime) -> Sequence[Finished]:
        """Return the runs that are over."""
        for node in self._nodes.values():
            node.charge(until)
        return sorted(
            _told(self._over), key=lambda each: (each.ended_at, each.namespace, each.name)
        )

    def _run(self, workload: Mapping[str, Any]) -> _Run:
        key = str(workload.get("namespace", "")), str(workload.get("name", ""))
        return self._open.setdefault(key, _Run(key))

    def _accepted(self, at: datetime, detail: Mapping[str, Any]) -> None:
        run = self._run(detail["workload"])
        action = detail.get("action")
        if action == "submit" and run.submitted_at is None:
            run.submitted_at = at
        if action == "withdraw":
            self._end(run, at, WITHDRAWN)

    def _placed(self, at: datetime, detail: Mapping[str, Any]) -> None:
        run = self._run(detail["workload"])
        run.placed_at = run.placed_at or at
        run.replicas = max(run.replicas, int(detail.get("replicas", 0)))
        for placed in detail.get("nodes", ()):
            run.places[placed["instanceType"], placed["capacityType"], placed["zone"]] = (
                None
            )
            node = self._node(placed)
            node.charge(at)
            before = node.replicas.get(run, 0)
            node.replicas[run] = before + int(placed["replicas"])

    def _launched(self, at: datetime, detail: Mapping[str, Any]) -> None:
        node = self._node(detail["node"])
        node.since = node.since or at
        node.price = int(detail["node"].get("priceMicroUsdPerHour") or node.price)

    def _terminated(self, at: datetime, detail: Mapping[str, Any]) -> None:
        node = self._nodes.pop(detail["node"]["nodeClaim"], None)
        if node is not None:
            node.charge(at)

    def _failed(self, _at: datetime, detail: Mapping[str, Any]) -> None:
        run = self._run(detail["workload"])
        run.failure_count += 1
        run.exit_code = int(detail["exitCode"])

    def _finished(self, at: datetime, detail: Mapping[str, Any]) -> None:
        run = self._run(detail["workload"])
        node = self._nodes.get(detail["node"]["nodeClaim"])
        if node is not None and run in node.replicas:
            node.charge(at)
            before = node.replicas.pop(run)
            if before > int(detail["replicas"]):
                node.replicas[run] = before - int(detail["replicas"])
        if int(detail["finished"]) >= int(detail["wanted"]):
            run.replicas, run.exit_code = int(detail["wanted"]), 0
            self._end(run, at, COMPLETED)

    def _end(self, run: _Run, at: datetime, how: str) -> None:
        run.ended_at, run.how = at, how
        self._over.append(run)
        self._open.pop(run.key, None)

    def _node(self, detail: Mapping[str, Any]) -> _ChargedNode:
        price = int(detail.get("priceMicroUsdPerHour") or 0)
        return self._nodes.setdefault(detail["nodeClaim"], _ChargedNode(price))


def _told(runs: Iterable[_Run]) -> Iterator[Finished]:
    for run in runs:
        if run.ended_at is not None:
            yield Finished(
                namespace=run.key[0],
                name=run.key[1],
                ended_at=run.ended_at,
                how=run.how,
                replicas=run.replicas,
                submitted_at=run.submitted_at,
                placed_at=run.placed_at,
                places=tuple(run.places),
                micro_usd=run.cost // _HOUR_S,
                failure_count=run.failure_count,
                exit_code=run.exit_code,
            )
