"""Which reservations a NodeClass selects (R-87 to R-93, and what Karpenter leaves to the launch to find out)."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from reservoir.core.model.capacity_reservation import ENDED_STATES, ObservedReservation
from reservoir.core.model.node_class import CapacityReservationSelectorTerm, NodeClass

ANY_VALUE = "*"


def selected_ids(
    node_class: NodeClass,
    reservations: Iterable[ObservedReservation],
    groups: Mapping[str, frozenset[str]],
    now: datetime,
) -> tuple[str, ...]:
    """Return the ids of reservations that some term selects and that the class can use now or later, sorted.

    Platform and tenancy are the class's own, because EC2 counts only instances that have the reservation's. So it is
    with the placement group that a reservation may lie in; a launch joins it where the class names none. What has
    ended is left out; other states (also ones that EC2 may add) are kept: such reservations are used once active.
    ``groups`` maps the ARNs of resource groups to reservation ids. What was split off a selected reservation is
    selected with it.
    """
    terms = node_class.capacity_reservation_selector_terms
    known = tuple(reservations)

    def is_usable(reservation: ObservedReservation) -> bool:
        return (
            reservation.platform == node_class.platform
            and reservation.tenancy == node_class.tenancy
            and _shares_group(node_class, reservation)
            and not _is_over(reservation, now)
        )

    def is_named(reservation: ObservedReservation) -> bool:
        return any(matches(term, reservation, groups) for term in terms)

    usable = [reservation for reservation in known if is_usable(reservation)]
    named = {reservation.id for reservation in usable if is_named(reservation)}
    split_off = {
        reservation.id for reservation in usable if reservation.split_from in named
    }
    return tuple(sorted(named | split_off))


def matches(
    term: CapacityReservationSelectorTerm,
    reservation: ObservedReservation,
    groups: Mapping[str, frozenset[str]],
) -> bool:
    """Whether every field of the term holds; a term without any selects nothing."""
    checks = []
    if term.id is not None:
        checks.append(term.id == reservation.id)
    if term.owner_id is not None:
        checks.append(term.owner_id == reservation.owner_id)
    if term.instance_match_criteria is not None:
        checks.append(term.instance_match_criteria == reservation.instance_match_criteria)
    if term.reservation_group_arn is not None:
        checks.append(reservation.id in groups.get(term.reservation_group_arn, frozenset()))
    checks += [_has_tag(reservation, key, value) for key, value in term.tags.items()]
    return bool(checks) and all(checks)


def _has_tag(reservation: ObservedReservation, key: str, value: str) -> bool:
    if value == ANY_VALUE:
        return key in reservation.tags
    return reservation.tags.get(key) == value


def _shares_group(node_class: NodeClass, reservation: ObservedReservation) -> bool:
    """Whether the class can launch into the reservation's placement group.

    A class that gives its group's id can use no reservation in a group: EC2 shows only the names of their groups.
    """
    group = reservation.placement_group_name
    return group is None or node_class.placement_group in (None, group)


def _is_over(reservation: ObservedReservation, now: datetime) -> bool:
    return reservation.state in ENDED_STATES or (
        reservation.end_at is not None and reservation.end_at <= now
    )
