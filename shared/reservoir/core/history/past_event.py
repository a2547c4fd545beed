"""One event of the outbound bus, as it is kept: when, what, and which objects it is about.

What an event is about is read from the shape of its detail and not from a list of kinds: a newer release's events are
kept and found like all others.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

WORKLOAD: Final = "workload"
NODE: Final = "node"
RESERVATION: Final = "reservation"
RESERVATION_CHANGED: Final = "Reservation Changed"
# Holders of reservations look back a month; other events are kept for as long as the deployment sets.
_KEPT_LONGER: Final = {RESERVATION_CHANGED: timedelta(days=30)}
LONGEST_KEPT: Final = max(_KEPT_LONGER.values())
_CORRELATION_ID: Final = "correlationId"  # in a detail, beside the name of a workload
_CORRELATION_IDS: Final = "correlationIds"  # of workloads that are not named
_POLICY_KINDS: Final = {
    "NodePool": "nodepool",
    "EC2NodeClass": "ec2nodeclass",
    "Team": "team",
}
# all other verbs: nodes
_OPERATED_KINDS: Final = {"pause": "nodepool", "resume": "nodepool", "reset": WORKLOAD}
_ID: Final = re.compile(r"[\w.:/+=-]{1,128}")
# Parts of a detail that only mention an object: what was tried, and not what happened to it.
_MENTIONS: Final = frozenset({"nearestOffering"})
# EventBridge has times to the second. Events of one second are in this order.
_LIFE: Final = (
    "Policy Changed",
    "Workload Accepted",
    "Node Terminated",
    "Workload Pending",
    "Workload Placed",
    "Launch Failed",
    "Node Launched",
    "Node Draining",
)


class EventError(ValueError):
    """The text is no event of EventBridge."""


@dataclass(frozen=True, slots=True)
class PastEvent:
    """An event as EventBridge delivered it; ``id`` is the same in every delivery. ``at`` is exact to the second."""

    id: str
    at: datetime
    detail_type: str
    detail: Mapping[str, Any]

    @property
    def order(self) -> tuple[datetime, int, str]:
        """Return what events are sorted by: time, then what comes first in the life of a workload or node."""
        rank = _LIFE.index(self.detail_type) if self.detail_type in _LIFE else len(_LIFE)
        return self.at, rank, self.id

    def kept(self, usual: timedelta) -> timedelta:
        """Return how long it is kept where events are kept for ``usual``."""
        return max(usual, _KEPT_LONGER.get(self.detail_type, usual))

    def objects(self) -> tuple[str, ...]:
        """Return its objects, sorted: ``workload/NAMESPACE/NAME``, ``node/CLAIM`` or ``reservation/ID``."""
        return tuple(sorted(set(_objects_in(self.detail))))

    def correlation_ids(self) -> tuple[str, ...]:
        """Return what the workloads that it names are followed by, sorted."""
        return tuple(sorted(set(correlation_ids_in(self.detail))))

    def nodes(self) -> tuple[str, ...]:
        """Return the claims of the nodes that it is about, sorted."""
        kinds = (name.partition("/") for name in self.objects())
        return tuple(claim_id for kind, _, claim_id in kinds if kind == NODE)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the workloads that it is about."""
        named = (name.split("/") for name in self.objects())
        return frozenset(parts[1] for parts in named if parts[0] == WORKLOAD)

    def node_pools(self) -> frozenset[str]:
        """Return the NodePools that it is about, or whose nodes it is about."""
        named = (name.partition("/") for name in self.objects())
        changed = {name for kind, _, name in named if kind == _POLICY_KINDS["NodePool"]}
        return frozenset(changed.union(_pools_in(self.detail)))

    @property
    def outcome(self) -> str:
        """The new state of its object, in one word: "draining" of ``Node Draining``."""
        return outcome_of(self.detail_type)

    def about(self, name: str) -> "PastEvent":
        """Return the part of it that is about one object.

        A list some of whose parts name the object is cut down to these; others stay whole. So the part that is kept for
        each node is small, however many nodes one event is about.
        """
        return PastEvent(self.id, self.at, self.detail_type, _cut(self.detail, name))


def parse_event(event: Any) -> PastEvent:
    """Read an event as EventBridge delivers it.

    Raises
    ------
    EventError
        It is none: its id, time, detail-type or detail is missing or has another form than EventBridge's.
    """
    if not isinstance(event, dict):
        raise EventError("no object")
    event_id = event.get("id")
    detail_type = event.get("detail-type")
    detail = event.get("detail")
    if not isinstance(event_id, str) or _ID.fullmatch(event_id) is None:
        raise EventError("no id")
    if not isinstance(detail_type, str) or not isinstance(detail, dict):
        raise EventError("no detail-type or detail")
    try:
        at = datetime.fromisoformat(str(event.get("time")))
    except ValueError as error:
        raise EventError("no time") from error
    if at.tzinfo is None:
        raise EventError("a time without its zone")
    return PastEvent(event_id, at, detail_type, detail)


def correlation_ids_in(part: Any) -> Iterator[str]:
    """Yield the correlation ids of the workloads in a part of a detail; an id may appear several times."""
    if isinstance(part, list):
        for each in part:
            yield from correlation_ids_in(each)
    elif isinstance(part, dict):
        if isinstance(part.get(_CORRELATION_ID), str):
            yield part[_CORRELATION_ID]
        several = part.get(_CORRELATION_IDS)
        yield from (
            each
            for each in (several if isinstance(several, list) else ())
            if isinstance(each, str)
        )
        for each in part.values():
            yield from correlation_ids_in(each)


def outcome_of(detail_type: str) -> str:
    """Return the new state of the object of a kind of event: the words after the object's own."""
    return detail_type.partition(" ")[2].lower().replace(" ", "-")


def workload_name(key: str) -> str:
    """Return what the workload ``namespace/name`` is called in the history."""
    return f"{WORKLOAD}/{key}"


def node_name(claim_id: str) -> str:
    """Return what a claim's node is called in the history."""
    return f"{NODE}/{claim_id}"


def reservation_name(reservation_id: str) -> str:
    """Return what a reservation is called in the history."""
    return f"{RESERVATION}/{reservation_id}"


def _pools_in(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _pools_in(each)
    elif isinstance(part, dict):
        if isinstance(part.get("nodePool"), str):
            yield part["nodePool"]
        for each in part.values():
            yield from _pools_in(each)


def _objects_in(value: Any) -> Iterator[str]:
    """Yield the names of all objects in a part of a detail; one may come several times."""
    if isinstance(value, list):
        for each in value:
            yield from _objects_in(each)
    elif isinstance(value, dict):
        yield from _named_by(value)
        for key, part in value.items():
            if key == "nodeClaims" and isinstance(part, list):
                yield from (node_name(each) for each in part if isinstance(each, str))
            elif key not in _MENTIONS:
                yield from _objects_in(part)


# Branches: one form of naming after the other, each with its type asked.
def _named_by(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the objects that one mapping names by itself."""
    name = part.get("name")
    if isinstance(name, str) and isinstance(part.get("namespace"), str):
        yield workload_name(f"{part['namespace']}/{name}")
    if isinstance(name, str) and part.get("kind") in _POLICY_KINDS:
        yield f"{_POLICY_KINDS[part['kind']]}/{name}"
    if isinstance(part.get("nodeClaim"), str):
        yield node_name(part["nodeClaim"])
    elif isinstance(part.get("nodeClass"), str):
        # the type of a node event says where it comes from, and not what happened
        yield f"{_POLICY_KINDS['EC2NodeClass']}/{part['nodeClass']}"
    if isinstance(part.get("team"), str):
        yield f"{_POLICY_KINDS['Team']}/{part['team']}"
    if isinstance(part.get("verb"), str) and isinstance(part.get("names"), list):
        kind = _OPERATED_KINDS.get(part["verb"], NODE)
        yield from (f"{kind}/{each}" for each in part["names"] if isinstance(each, str))
    for key in ("capacityReservationId", "previousCapacityReservationId"):
        if isinstance(part.get(key), str):
            yield reservation_name(part[key])


def _cut(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _cut(part, name) for key, part in value.items()}
    if isinstance(value, list):
        naming = [each for each in value if _names(each, name)]
        return naming or value
    return value


def _names(part: Any, name: str) -> bool:
    return node_name(part) == name if isinstance(part, str) else name in _objects_in(part)
