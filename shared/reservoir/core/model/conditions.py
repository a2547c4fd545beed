"""Conditions of classes and pools: what is ready, what is not and why (after the ODCR RFCs, in Kubernetes' form)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import (
    NodeClass,
    SelectorTerm,
    Validation,
    ValidationOutcome,
)
from reservoir.core.model.node_pool import NodePool

NONE_FOUND: Final = "NoneFound"  # what a class's terms select is nothing that there is
NEVER_FOUND: Final = "LookupFailedNothingFound"
_NOT_YET_KNOWN: Final = "NotYetKnown"
_BLIND: Final = frozenset({NEVER_FOUND, _NOT_YET_KNOWN})


class ConditionType(StrEnum):
    """What a condition is about."""

    CAPACITY_RESERVATIONS_READY = "CapacityReservationsReady"
    SUBNETS_READY = "SubnetsReady"
    SECURITY_GROUPS_READY = "SecurityGroupsReady"
    AMIS_READY = "AMIsReady"
    INSTANCE_PROFILE_READY = "InstanceProfileReady"
    LAUNCHES_PERMITTED = "LaunchesPermitted"
    # a dry run by the role that launches, as Karpenter does
    VALIDATION_SUCCEEDED = "ValidationSucceeded"
    NODE_CLASS_READY = "NodeClassReady"
    PRINCIPALS_RESOLVED = "PrincipalsResolved"
    # Available | LimitExceeded, as the first ODCR RFC has it
    CAPACITY_RESERVATION = "CapacityReservation"
    READY = "Ready"


class ConditionStatus(StrEnum):
    """Whether it holds; the last two belong to ``CapacityReservation`` alone."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"
    AVAILABLE = "Available"
    LIMIT_EXCEEDED = "LimitExceeded"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. ``last_transition_at`` is when the status last changed, not when it was last looked at."""

    type: ConditionType
    status: ConditionStatus
    reason: str
    message: str
    last_transition_at: datetime


def node_class_conditions(
    node_class: NodeClass,
    reservations: Sequence[CapacityReservation],
    *,
    discovery_errors: Mapping[ConditionType, str],
    previous: Sequence[Condition],
    now: datetime,
    rests: str | None = None,
    is_validated: bool = True,
) -> tuple[Condition, ...]:
    """Compute a class's conditions from what discovery found.

    ``rests`` says why it launches nothing for now, and until when. ``is_validated``: the last dry run was about the
    class as it is. The result of a dry run is a condition beside ``Ready`` and does not change it: launches go on.
    ``reservations`` are those that the class selects. ``discovery_errors`` say what could not be looked up. The earlier
    result is then still in use, so the condition is Unknown instead of False, and the class stays ready. Without an
    earlier result, ``Ready`` is Unknown too: nothing can be launched yet.
    """
    make = _Maker(previous, now)
    found = [
        _looked_up(make, condition_type, count, what, discovery_errors)
        for condition_type, count, what in _lookups(node_class)
    ]
    found.append(_reservations_ready(make, node_class, reservations, discovery_errors))
    found.append(_permitted(make, node_class.status.launch_blocked_reason, rests))
    ready = _all_ready(make, found)
    validation = _validation(make, node_class.status.validation if is_validated else None)
    limit = _limit(make, [it for it in reservations if node_class.may_use(it)], now)
    return tuple(sorted((*found, validation, *limit, ready), key=condition_order))


def not_yet_looked_at(now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of an object that no discovery has seen yet."""
    message = "not looked at yet; discovery does so within a minute"
    return (
        Condition(
            ConditionType.READY, ConditionStatus.UNKNOWN, _NOT_YET_KNOWN, message, now
        ),
    )


def launches_blocked(
    previous: Sequence[Condition], reason: str, now: datetime
) -> tuple[Condition, ...]:
    """Return a class's conditions after EC2 refused a launch for good; the conditions of lookups stay."""
    make = _Maker(previous, now)
    replaced = (ConditionType.LAUNCHES_PERMITTED, ConditionType.READY)
    found = [condition for condition in previous if condition.type not in replaced]
    found.append(_permitted(make, reason))
    return tuple(sorted((*found, _all_ready(make, found)), key=condition_order))


def node_pool_conditions(
    pool: NodePool,
    node_class_found: Sequence[Condition] | None,
    reservations: Sequence[CapacityReservation],
    *,
    previous: Sequence[Condition],
    now: datetime,
) -> tuple[Condition, ...]:
    """Compute a pool's conditions from those of its class (None: there is no such class).

    ``reservations`` are those that the class selects and can launch into, and whose nodes the pool admits.
    """
    make = _Maker(previous, now)
    if node_class_found is None:
        message = f"there is no EC2NodeClass {pool.node_class_name}"
        class_ready = make(
            ConditionType.NODE_CLASS_READY,
            ConditionStatus.FALSE,
            "NodeClassNotFound",
            message,
        )
    else:
        source = next((c for c in node_class_found if c.type is ConditionType.READY), None)
        status = ConditionStatus.UNKNOWN if source is None else source.status
        reason, message = (
            (_NOT_YET_KNOWN, "") if source is None else (source.reason, source.message)
        )
        class_ready = make(ConditionType.NODE_CLASS_READY, status, reason, message)
    limit = _limit(make, reservations, now)
    return tuple(
        sorted((class_ready, *limit, _all_ready(make, [class_ready])), key=condition_order)
    )


def team_conditions(
    unresolved: Sequence[str], *, previous: Sequence[Condition], now: datetime
) -> tuple[Condition, ...]:
    """Compute a team's conditions; ``unresolved`` are the ARNs of principals that IAM did not know."""
    make, kind = _Maker(previous, now), ConditionType.PRINCIPALS_RESOLVED
    if unresolved:
        message = f"IAM knows no {', '.join(unresolved)}: apply the team again once it does"
        resolved = make(kind, ConditionStatus.FALSE, "PrincipalNotFound", message)
    else:
        resolved = make(
            kind,
            ConditionStatus.TRUE,
            "Resolved",
            "each as it was when the team was applied",
        )
    return resolved, _all_ready(make, [resolved])


@dataclass(frozen=True, slots=True)
class _Maker:
    previous: Sequence[Condition]
    now: datetime

    def __call__(
        self, kind: ConditionType, status: ConditionStatus, reason: str, message: str = ""
    ) -> Condition:
        before = next(
            (condition for condition in self.previous if condition.type is kind), None
        )
        since = (
            before.last_transition_at
            if before is not None and before.status is status
            else self.now
        )
        return Condition(kind, status, reason, message, since)


def condition_order(condition: Condition) -> tuple[bool, str]:
    """Order an object's conditions: by type, Ready last."""
    return condition.type is ConditionType.READY, condition.type


def _lookups(node_class: NodeClass) -> Iterator[tuple[ConditionType, int, str]]:
    status = node_class.status
    yield ConditionType.SUBNETS_READY, len(status.subnets), "subnet"
    yield (
        ConditionType.SECURITY_GROUPS_READY,
        len(status.security_group_ids),
        "security group",
    )
    looked_for = ", ".join(
        filter(None, map(_image_asked_for, node_class.ami_selector_terms))
    )
    what = f"machine image ({looked_for})" if looked_for else "machine image"
    yield ConditionType.AMIS_READY, len(status.machine_images), what
    if node_class.role is not None or node_class.instance_profile is not None:
        yield (
            ConditionType.INSTANCE_PROFILE_READY,
            int(status.instance_profile is not None),
            "instance profile",
        )


def _image_asked_for(term: SelectorTerm) -> str:
    return term.alias or term.ssm_parameter or term.name or term.id or ""


def _looked_up(
    make: Callable[[ConditionType, ConditionStatus, str, str], Condition],
    kind: ConditionType,
    count: int,
    what: str,
    errors: Mapping[ConditionType, str],
) -> Condition:
    if kind in errors:
        reason = "LookupFailed" if count else NEVER_FOUND
        return make(kind, ConditionStatus.UNKNOWN, reason, errors[kind])
    if count == 0:
        return make(kind, ConditionStatus.FALSE, NONE_FOUND, f"the terms select no {what}")
    return make(kind, ConditionStatus.TRUE, "Found", f"{count} found")


def _reservations_ready(
    make: Callable[[ConditionType, ConditionStatus, str, str], Condition],
    node_class: NodeClass,
    reservations: Sequence[CapacityReservation],
    errors: Mapping[ConditionType, str],
) -> Condition:
    """Return the condition about reservations.

    Finding none is no fault: the class can still launch other capacity (S-28).
    """
    kind = ConditionType.CAPACITY_RESERVATIONS_READY
    if kind in errors:
        return make(kind, ConditionStatus.UNKNOWN, "LookupFailed", errors[kind])
    if not node_class.capacity_reservation_selector_terms:
        return make(
            kind, ConditionStatus.TRUE, "NotSelected", "the class selects no reservations"
        )
    missing = node_class.missing_reservations(
        [reservation.id for reservation in reservations]
    )
    without = f"; not usable: {', '.join(missing)}" if missing else ""
    return make(
        kind,
        ConditionStatus.TRUE,
        "Found" if reservations else "NoneFound",
        f"{len(reservations)} found{without}",
    )


def _permitted(
    make: Callable[..., Condition], blocked: str | None, rests: str | None = None
) -> Condition:
    kind = ConditionType.LAUNCHES_PERMITTED
    if blocked is not None:
        return make(kind, ConditionStatus.FALSE, "LaunchesBlocked", blocked)
    if rests is not None:
        return make(kind, ConditionStatus.FALSE, "NothingStarts", rests)
    return make(kind, ConditionStatus.TRUE, "NotRefused")


def _validation(make: Callable[..., Condition], last: Validation | None) -> Condition:
    kind = ConditionType.VALIDATION_SUCCEEDED
    if last is None:
        return make(
            kind,
            ConditionStatus.UNKNOWN,
            "AwaitingReconciliation",
            "EC2 was not asked yet for a dry run",
        )
    if last.outcome is ValidationOutcome.SUCCEEDED:
        return make(kind, ConditionStatus.TRUE, last.reason, last.message)
    status = (
        ConditionStatus.FALSE
        if last.outcome is ValidationOutcome.REFUSED
        else ConditionStatus.UNKNOWN
    )
    return make(kind, status, last.reason, last.message)


def _limit(
    make: Callable[..., Condition],
    reservations: Sequence[CapacityReservation],
    now: datetime,
) -> tuple[Condition, ...]:
    """LimitExceeded while no usable reservation has a free unit; nothing at all where there is no reservation."""
    usable = [reservation for reservation in reservations if reservation.is_active(now)]
    if not usable:
        return ()
    free = sum(reservation.free_units for reservation in usable)
    total = sum(reservation.total_count for reservation in usable)
    kind, message = ConditionType.CAPACITY_RESERVATION, f"{free} of {total} units are free"
    if free:
        return (make(kind, ConditionStatus.AVAILABLE, "UnitsFree", message),)
    return (make(kind, ConditionStatus.LIMIT_EXCEEDED, "NoUnitFree", message),)


def _all_ready(
    make: Callable[..., Condition], conditions: Sequence[Condition]
) -> Condition:
    """Ready unless something is False: where a lookup failed, the earlier result is still in use.

    Where there is no earlier result, ``Ready`` is unknown.
    """
    broken = next((c for c in conditions if c.status is ConditionStatus.FALSE), None)
    unknown = next(
        (
            c
            for c in conditions
            if c.status is ConditionStatus.UNKNOWN and c.reason in _BLIND
        ),
        None,
    )
    cause = broken or unknown
    if cause is None:
        return make(ConditionType.READY, ConditionStatus.TRUE, "Ready")
    return make(
        ConditionType.READY, cause.status, cause.reason, f"{cause.type}: {cause.message}"
    )
