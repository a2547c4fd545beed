"""One line about an event: what it happened to, and what that was."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from reservoir.core.history.past_event import PastEvent, node_name, reservation_name, workload_name

Detail = Mapping[str, Any]

_FRACTION: Final = re.compile(r"(?<=:\d\d)\.\d+")


def subject(event: PastEvent) -> str:
    """Return the object that an event is about first of all: the workload, else the node, else the reservation.

    Empty for an event about the whole deployment.
    """
    detail = event.detail
    workload, node = detail.get("workload"), detail.get("node")
    if isinstance(workload, dict):
        return workload_name(f"{workload.get('namespace')}/{workload.get('name')}")
    if isinstance(node, dict) and "nodeClaim" in node:
        return node_name(str(node["nodeClaim"]))
    if "capacityReservationId" in detail:
        return reservation_name(str(detail["capacityReservationId"]))
    return next(iter(event.objects()), "")


def summary(event: PastEvent) -> str:
    """Return what happened in one line. A kind that nobody here knows is told by its plain fields."""
    return _LINES.get(event.detail_type, _plain)(event.detail)


def _placed(detail: Detail) -> str:
    nodes = _parts(detail, "nodes")
    replicas = sum(int(node.get("replicas", 0)) for node in nodes)
    offers: dict[str, int] = {}
    for node in nodes:
        offer = f"{node.get('instanceType')} {node.get('capacityType')} in {node.get('zone')}"
        offers[offer] = offers.get(offer, 0) + 1
    where = ", ".join(f"{count} x {offer}" for offer, count in sorted(offers.items()))
    return f"{_number(replicas, 'replica')} on {where}"


def _pending(detail: Detail) -> str:
    earliest = f"; could change at {_instant(detail['earliestAt'])}" if "earliestAt" in detail else ""
    return f"{_number(detail.get('replicas', 0), 'replica')}: {detail.get('reason')}: {detail.get('message')}{earliest}"


def _rejected(detail: Detail) -> str:
    problems = _parts(detail, "problems")
    first = f"{problems[0].get('path')}: {problems[0].get('message')}" if problems else "not understood"
    return first if len(problems) < 2 else f"{first} (and {len(problems) - 1} more)"


def _launched(detail: Detail) -> str:
    node = detail.get("node", {})
    return f"{node.get('instanceId', 'an instance')} is {_offer(node)}"


def _draining(detail: Detail) -> str:
    return f"{detail.get('reason')}, until {_instant(detail.get('deadline'))}"


def _terminated(detail: Detail) -> str:
    returned = sum(int(part.get("replicas", 0)) for part in _parts(detail, "returned"))
    again = f"; {_number(returned, 'replica')} waiting again" if returned else ""
    return f"{detail.get('reason')}{again}"


def _capacity_type_changed(detail: Detail) -> str:
    return f"was {detail.get('previous')}, is {_offer(detail.get('node', {}))}"


def _launch_failed(detail: Detail) -> str:
    nodes = _number(len(detail.get("nodeClaims", ())), "node")
    return f"{nodes} of {_offer(detail.get('offering', {}))}: {detail.get('code')}: {detail.get('message')}"


def _exhausted(detail: Detail) -> str:
    return f"all {detail.get('totalCount')} units of {detail.get('instanceType')} are used"


def _idle(detail: Detail) -> str:
    units = f"{detail.get('idleCount')} of {detail.get('totalCount')} units of {detail.get('instanceType')}"
    return f"{units} unused since {_instant(detail.get('idleSince'))}"


def _policy_changed(detail: Detail) -> str:
    return ", ".join(f"{it.get('kind')}/{it.get('name')} {it.get('change')}" for it in _parts(detail, "changes"))


def _requested(detail: Detail) -> str:
    names = detail.get("names", ())
    several = f" {len(names)}" if len(names) > 1 else ""
    deadline = f" within {detail['deadline']}" if "deadline" in detail else ""
    return f"{detail.get('verb')}{several}{deadline}: {detail.get('reason')}, by {detail.get('by')}"


def _plain(detail: Detail) -> str:
    if isinstance(detail.get("message"), str):
        return str(detail["message"])
    plain = {key: value for key, value in detail.items() if isinstance(value, str | int) and key != "version"}
    return ", ".join(f"{key} {value}" for key, value in plain.items())


def _offer(part: Any) -> str:
    return f"{part.get('instanceType', '?')} {part.get('capacityType', '?')} in {part.get('zone', '?')}"


def _instant(text: object) -> str:
    """Return an instant to the second, as the column of times has it."""
    return _FRACTION.sub("", str(text))


def _parts(detail: Detail, key: str) -> Sequence[Detail]:
    found = detail.get(key, ())
    return [part for part in found if isinstance(part, dict)]


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_LINES: Final[Mapping[str, Callable[[Detail], str]]] = {
    "Workload Placed": _placed,
    "Workload Pending": _pending,
    "Workload Rejected": _rejected,
    "Node Launched": _launched,
    "Node Draining": _draining,
    "Node Terminated": _terminated,
    "Node Capacity Type Changed": _capacity_type_changed,
    "Launch Failed": _launch_failed,
    "Reservation Exhausted": _exhausted,
    "Reservation Idle": _idle,
    "Policy Changed": _policy_changed,
    "Operation Requested": _requested,
}
