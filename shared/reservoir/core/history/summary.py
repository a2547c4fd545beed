"""One line about an event: its object, and what happened to it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from reservoir.core.history.past_event import (
    PastEvent,
    node_name,
    reservation_name,
    workload_name,
)
from reservoir.core.scheduling_terms.money import usd

Detail = Mapping[str, Any]

_MICRO: Final = 1_000_000
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
    """Return what happened in one line. An unknown kind is described by its plain fields."""
    return _LINES.get(event.detail_type, _plain)(event.detail)


def _placed(detail: Detail) -> str:
    nodes = _parts(detail, "nodes")
    replicas = sum(int(node.get("replicas", 0)) for node in nodes)
    offers: dict[str, int] = {}
    for node in nodes:
        offer = (
            f"{node.get('instanceType')} {node.get('capacityType')} in {node.get('zone')}"
        )
        offers[offer] = offers.get(offer, 0) + 1
    where = ", ".join(f"{count} x {offer}" for offer, count in sorted(offers.items()))
    return f"{_number(replicas, 'replica')} placed on {where}"


def _pending(detail: Detail) -> str:
    count = detail.get("replicas", 0)
    waits = f"{_number(count, 'replica')} {'waits' if count == 1 else 'wait'}"
    earliest = (
        f"; could change at {_instant(detail['earliestAt'])}"
        if "earliestAt" in detail
        else ""
    )
    return f"{waits}: {detail.get('reason')}: {detail.get('message')}{earliest}"


def _accepted(detail: Detail) -> str:
    generation = detail.get("workload", {}).get("generation", "?")
    return f"{detail.get('action')} accepted; generation {generation} is stored"


def _ignored(detail: Detail) -> str:
    stored = (
        f"; generation {detail['storedGeneration']} is stored"
        if "storedGeneration" in detail
        else ""
    )
    return f"{detail.get('action')} changed nothing: {detail.get('reason')}{stored}"


def _rejected(detail: Detail) -> str:
    problems = _parts(detail, "problems")
    first = (
        f"{problems[0].get('path')}: {problems[0].get('message')}"
        if problems
        else "not understood"
    )
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"message rejected: {first}{more}"


def _described(detail: Detail) -> str:
    wanted, placed = detail.get("wanted", "?"), detail.get("placed", "?")
    return f"status sent: {wanted} wanted, {placed} placed"


def _launched(detail: Detail) -> str:
    node = detail.get("node", {})
    return f"{node.get('instanceId', 'an instance')} launched: {_offer(node)}"


def _draining(detail: Detail) -> str:
    return f"drains until {_instant(detail.get('deadline'))}: {detail.get('reason')}"


def _terminated(detail: Detail) -> str:
    returned = sum(int(part.get("replicas", 0)) for part in _parts(detail, "returned"))
    again = f"; {_number(returned, 'replica')} waiting again" if returned else ""
    return f"terminated: {detail.get('reason')}{again}"


def _capacity_type_changed(detail: Detail) -> str:
    return f"was {detail.get('previous')}, is now {_offer(detail.get('node', {}))}"


def _moved_in(detail: Detail) -> str:
    split_from = detail.get("splitFrom")
    unit = f", in a unit of {split_from}" if split_from else ""
    return f"moved in without a restart: is now {_offer(detail.get('node', {}))}{unit}"


def _launch_failed(detail: Detail) -> str:
    nodes = _number(len(detail.get("nodeClaims", ())), "node")
    return f"{nodes} of {_offer(detail.get('offering', {}))}: {detail.get('code')}: {detail.get('message')}"


def _blocked(detail: Detail) -> str:
    return f"launches nothing: {detail.get('reason')}: {detail.get('message')}"


def _exhausted(detail: Detail) -> str:
    return f"no free unit of {detail.get('instanceType')} left, of {detail.get('totalCount')} in all"


def _idle(detail: Detail) -> str:
    units = f"{detail.get('idleCount')} of {detail.get('totalCount')} units of {detail.get('instanceType')}"
    return f"{units} idle since {_instant(detail.get('idleSince'))}"


def _lending_changed(detail: Detail) -> str:
    before, count = detail.get("lentBefore", 0), detail.get("lentCount", 0)
    units = _number(abs(count - before), f"unit of {detail.get('instanceType')}")
    verb = "lends" if count > before else "takes back"
    return f"{verb} {units}, {count} lent in all: {detail.get('reason')}"


def _suspected(detail: Detail) -> str:
    units = _number(detail.get("suspectedCount", 0), "unit")
    kind = f"{units} of {detail.get('instanceType')}"
    return f"nodes on {kind} do not start; the units rest until {_instant(detail.get('unusedUntil'))}"


def _left_spot(detail: Detail) -> str:
    return (
        f"placed without spot until {_instant(detail.get('until'))}: {detail.get('reason')}"
    )


def _policy_changed(detail: Detail) -> str:
    changes = ", ".join(
        f"{it.get('kind')}/{it.get('name')} {it.get('change')}"
        for it in _parts(detail, "changes")
    )
    by = detail.get("by")
    return changes if by is None else f"{changes}, by {by}"


def _held(detail: Detail) -> str:
    return f"safety envelope holds {detail.get('kind')}: {detail.get('message')}"


def _lifted(detail: Detail) -> str:
    ends = f"{detail.get('count')} more may end as {detail.get('kind')} until {_instant(detail.get('until'))}"
    return f"{ends}: {detail.get('reason')}, by {detail.get('by')}"


def _adopted(detail: Detail) -> str:
    return f"tables adopted: {detail.get('reason')}, by {detail.get('by')}"


def _requested(detail: Detail) -> str:
    names = detail.get("names", ())
    several = f" {len(names)}" if len(names) > 1 else ""
    deadline = f" within {detail['deadline']}" if "deadline" in detail else ""
    return f"{detail.get('verb')}{several}{deadline}: {detail.get('reason')}, by {detail.get('by')}"


def _share(detail: Detail) -> str:
    quotas = [
        f"{it.get('used')} of {it.get('nominal')} units of {it.get('reservations')}"
        for it in _parts(detail, "quotas")
    ]
    quotas += [
        f"{it.get('used')} of {it.get('nominal')} {it.get('resource')}"
        for it in _parts(detail, "resources")
    ]
    used = f"uses {', '.join(quotas)}; " if quotas else ""
    spent = _usd(detail.get("spentMicroUsd"))
    forecast = _usd(detail.get("forecastMicroUsd"))
    return f"{used}spent {spent} USD in {detail.get('month')}, forecast {forecast} USD"


def _over_budget(detail: Detail) -> str:
    limit, spent = _usd(detail.get("limitMicroUsd")), _usd(detail.get("spentMicroUsd"))
    forecast = _usd(detail.get("forecastMicroUsd"))
    waiting = detail.get("waitingReplicas", 0)
    waits = f"; {_number(waiting, 'replica')} waiting for money" if waiting else ""
    return f"budget of the {detail.get('period')}, {limit} USD: spent {spent}, forecast {forecast} USD{waits}"


def _ready(detail: Detail) -> str:
    return f"{_number(detail.get('replicas', 0), 'replica')} started on {_claim(detail)}"


def _failed(detail: Detail) -> str:
    loop = ", again and again" if detail.get("isCrashLoop") else ""
    again = f"starts again in {detail.get('nextStartInS')} s"
    return f"replica failed on {_claim(detail)} with exit code {detail.get('exitCode')}{loop}; {again}"


def _finished(detail: Detail) -> str:
    done = f"{detail.get('finished')} of {detail.get('wanted')} finished"
    return f"{_number(detail.get('replicas', 0), 'replica')} finished on {_claim(detail)}; {done}"


def _claim(detail: Detail) -> str:
    return str(detail.get("node", {}).get("nodeClaim", "a node"))


def _usd(micro: object) -> str:
    return f"{micro / _MICRO:,.2f}" if isinstance(micro, int) else "?"


def _changed(detail: Detail) -> str:
    what = ", ".join(str(each) for each in detail.get("what", ()))
    changes = [
        f"{it.get('field')} {_or_none(it, 'old')} -> {_or_none(it, 'new')}"
        for it in _parts(detail, "changes")
    ]
    return "; ".join(
        (f"{what}: {detail.get('instanceType')} in {detail.get('zone')}", *changes)
    )


def _ending(detail: Detail) -> str:
    after = (
        "nothing goes on" if "successor" not in detail else f"{detail['successor']} goes on"
    )
    units = f"{detail.get('units')} units of {detail.get('instanceType')}"
    nodes = _number(detail.get("nodeCount", 0), "node")
    return f"{units} end at {_instant(detail.get('endAt'))} under {nodes}; {after}"


def _readiness(detail: Detail) -> str:
    found = [str(each.get("message")) for each in detail.get("problems", ())]
    begins = f"begins at {_instant(detail.get('startAt'))}"
    if not found:
        return f"{begins}, and what was missing for its first launch is there"
    return f"{begins}, and nothing could be launched into it: {'; '.join(found)}"


def _or_none(part: Detail, key: str) -> str:
    return str(part.get(key) or "none")


def _purchased(detail: Detail) -> str:
    what = "an extension of" if detail.get("isExtension") else ""
    block = f"{detail.get('count')} {detail.get('instanceType')} in {detail.get('zone')}"
    window = f"from {_instant(detail.get('startAt'))} to {_instant(detail.get('endAt'))}"
    return f"{what} {block} {window} for {usd(int(detail.get('feeMicroUsd', 0)))}, by {detail.get('by')}".strip()


def _plain(detail: Detail) -> str:
    if isinstance(detail.get("message"), str):
        return str(detail["message"])
    plain = {
        key: value
        for key, value in detail.items()
        if isinstance(value, str | int) and key != "version"
    }
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
    "Workload Accepted": _accepted,
    "Workload Ignored": _ignored,
    "Workload Rejected": _rejected,
    "Workload Described": _described,
    "Workload Left Spot": _left_spot,
    "Node Launched": _launched,
    "Node Draining": _draining,
    "Node Terminated": _terminated,
    "Node Capacity Type Changed": _capacity_type_changed,
    "Node Moved Into Reservation": _moved_in,
    "Launch Failed": _launch_failed,
    "Launches Blocked": _blocked,
    "Reservation Exhausted": _exhausted,
    "Reservation Idle": _idle,
    "Reservation Lending Changed": _lending_changed,
    "Capacity Suspected": _suspected,
    "Policy Changed": _policy_changed,
    "Endings Held": _held,
    "Envelope Lifted": _lifted,
    "Tables Adopted": _adopted,
    "Operation Requested": _requested,
    "Team Share": _share,
    "Team Over Budget": _over_budget,
    "Replica Ready": _ready,
    "Replica Failed": _failed,
    "Replica Finished": _finished,
    "Capacity Purchased": _purchased,
    "Reservation Changed": _changed,
    "Reservation Ending": _ending,
    "Reservation Readiness": _readiness,
}
