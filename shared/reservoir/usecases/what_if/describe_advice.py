"""An advice in the form that programs read."""

import shlex
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from reservoir.core.advice.advise import UnitChange
from reservoir.core.advice.count import Cost
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import NodeClass
from reservoir.manifests.answers.advice import AdviceAnswer, AdvisedChange, AdvisedCost
from reservoir.usecases.what_if.advise import Advised

_MONTH_S: Final = 30 * 86_400
_SECOND: Final = timedelta(seconds=1)


def advice_described(advised: Advised, worth_percent: int) -> AdviceAnswer:
    """Return an advice in its wire form."""
    advice = advised.advice
    seconds = max(1, (advice.until - advice.since) // _SECOND)
    return AdviceAnswer(
        since=advice.since,
        until=advice.until,
        asked_since=advised.asked_since,
        workloads=advised.life_count,
        worth_percent=worth_percent,
        before=_cost(advice.before.cost, seconds),
        after=_cost(advice.after.cost, seconds),
        changes=[_change(change, advised, seconds) for change in advice.changes],
        notes=list(advice.notes),
    )


def _a_month(amount: int, seconds: int) -> int:
    return amount * _MONTH_S // seconds


def _cost(cost: Cost, seconds: int) -> AdvisedCost:
    return AdvisedCost(
        held_micro_usd=_a_month(cost.held_micro_usd, seconds),
        bought_micro_usd=_a_month(cost.bought_micro_usd, seconds),
        waiting_replica_s=_a_month(cost.waiting_replica_s, seconds),
        waiting_micro_usd=_a_month(cost.waiting_micro_usd, seconds),
    )


def _change(change: UnitChange, advised: Advised, seconds: int) -> AdvisedChange:
    kind = change.kind
    reservation = next(item for item in advised.snapshot.reservations if item.id == kind.id)
    return AdvisedChange(
        capacity_reservation_id=kind.id if kind.exists else None,
        instance_type=kind.instance_type,
        zone=kind.zone,
        units=kind.held,
        units_advised=change.units,
        paid_less_micro_usd=_a_month(change.saved.paid_micro_usd, seconds),
        waiting_less_replica_s=_a_month(change.saved.waiting_replica_s, seconds),
        saves_micro_usd=_a_month(change.saved.micro_usd, seconds),
        weeks_saved=change.weeks_saved,
        weeks=change.weeks,
        against=list(_against(change, reservation)),
        command=command_for(change, reservation, advised.snapshot.node_classes),
    )


def _against(change: UnitChange, reservation: CapacityReservation) -> Iterator[str]:
    if change.more < 0:
        yield "units that are given back may not be available again"
    else:
        yield "it is paid for, used or not"
    if change.weeks_saved < change.weeks:
        yield f"it would have cost more in {change.weeks - change.weeks_saved} of {change.weeks} weeks"
    if change.saved.waiting_replica_s < 0:
        yield "more would have waited"
    if change.more < 0 and reservation.total_count > change.kind.held:
        yield "others use units of it too"


def command_for(
    change: UnitChange,
    reservation: CapacityReservation,
    node_classes: tuple[NodeClass, ...],
) -> str:
    """Return the command of AWS's command line that makes the change."""
    if change.kind.exists:
        left = reservation.total_count + change.more
        of = f"--capacity-reservation-id {reservation.id}"
        if left <= 0:
            return f"aws ec2 cancel-capacity-reservation {of}"
        return f"aws ec2 modify-capacity-reservation {of} --instance-count {left}"
    tags: list[tuple[str, str]] = []
    for item in node_classes:
        if item.name in change.kind.class_names:
            for term in item.capacity_reservation_selector_terms[:1]:
                tags += sorted(term.tags.items())
    pairs = ",".join(f"{{Key={key},Value={value}}}" for key, value in tags)
    words = [
        *("aws", "ec2", "create-capacity-reservation"),
        *("--instance-type", change.kind.instance_type),
        *("--instance-platform", reservation.platform),
        *("--availability-zone", change.kind.zone),
        *("--instance-count", str(change.units)),
        *("--instance-match-criteria", "targeted"),
        *(
            ("--tag-specifications", f"ResourceType=capacity-reservation,Tags=[{pairs}]")
            if pairs
            else ()
        ),
    ]
    return shlex.join(words)
