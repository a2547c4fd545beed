"""What each NodeClass selects, found and written to its status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from reservoir.core.capacity.offerings import pool_admits
from reservoir.core.capacity.unavailable_offerings import NodeClassKey, class_rests
from reservoir.core.launching.class_validation import is_due, validated
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.conditions import (
    NONE_FOUND,
    Condition,
    ConditionStatus,
    ConditionType,
    node_class_conditions,
    node_pool_conditions,
)
from reservoir.core.model.node_class import NodeClass, NodeClassStatus
from reservoir.manifests.events import LaunchesBlocked
from reservoir.ports.discovery import LaunchEnvironmentReader
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.policy import PolicyKind, PolicyObject, PolicyStatus, PolicyStore
from reservoir.ports.state import OfferingStore
from reservoir.usecases.policy.policy_objects import policy_of

T = TypeVar("T")

# A class that could not be launched is probed again after this long: one failing call instead of a loop of them.
BLOCK_REST: Final = timedelta(minutes=15)
_NO_BLOCK: Final[dict[str, Any]] = {
    "launch_blocked_reason": None,
    "launch_blocked_at": None,
    "launch_blocked_generation": None,
}


@dataclass(frozen=True, slots=True)
class SelectedReservations:
    """The reservations that a class selects; those of before where ``error`` says why its groups could not be read.

    ``reclaim_group_arn``: the group for on-demand nodes, if it exists.
    """

    reservations: tuple[CapacityReservation, ...] = ()
    error: str | None = None
    reclaim_group_arn: str | None = None


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Names of classes whose findings changed, what could not be looked up, and which classes want a dry run."""

    changed: tuple[str, ...]
    failures: tuple[str, ...]
    to_validate: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeClassResolver:
    """Refreshes statuses. What cannot be read keeps its last good value."""

    environment: LaunchEnvironmentReader
    policy: PolicyStore
    offerings: OfferingStore
    publisher: EventPublisher

    def refresh(
        self,
        objects: Sequence[PolicyObject],
        selections: Mapping[str, SelectedReservations],
        now: datetime,
    ) -> Refreshed:
        """Write statuses that changed.

        Raises UnreadableRowsError when an object became unreadable meanwhile.
        """
        changed: list[str] = []
        due: list[str] = []
        failures: list[str] = []
        found = policy_of(objects)
        rests = self.offerings.list_unavailable(now)
        stored = {(item.kind, item.name): item for item in objects}
        class_conditions: dict[str, tuple[Condition, ...]] = {}
        usable: dict[str, list[CapacityReservation]] = {}
        for node_class in found.node_classes:
            selection = selections[node_class.name]
            errors: dict[ConditionType, str] = {}
            if selection.error is not None:
                errors[ConditionType.CAPACITY_RESERVATIONS_READY] = selection.error
            generation = stored[PolicyKind.NODE_CLASS, node_class.name].generation
            status = self._status(node_class, selection, errors)
            # Then what could not be launched was something else. Free addresses change with every launch.
            found_else = _without_counts(status) != _without_counts(node_class.status)
            status = (
                replace(status, **_NO_BLOCK)
                if found_else
                else unblocked(status, generation, now)
            )
            rest = rests.get(NodeClassKey(node_class.name, node_class.static_hash))
            resolved = replace(node_class, status=status)
            usable[node_class.name] = [
                it for it in selection.reservations if resolved.may_use(it)
            ]
            conditions = node_class_conditions(
                resolved,
                selection.reservations,
                discovery_errors=errors,
                previous=stored[PolicyKind.NODE_CLASS, node_class.name].status.conditions,
                now=now,
                rests=None if rest is None else class_rests(rest),
                is_validated=status.validation is not None
                and status.validation.of == validated(resolved),
            )
            starts = [
                it.start_at for it in selection.reservations if it.start_at is not None
            ]
            if is_due(resolved, now, starts):
                due.append(node_class.name)
            class_conditions[node_class.name] = conditions
            failures += [
                f"{node_class.name}: {kind}: {error}"
                for kind, error in sorted(errors.items())
            ]
            former = stored[PolicyKind.NODE_CLASS, node_class.name]
            told = _newly_unready(node_class.name, former.status.conditions, conditions)
            if told is not None:
                # before it is stored: a run that dies in between publishes it again
                self.publisher.publish([told])
            self._save(former, PolicyStatus(conditions, status))
            if status != node_class.status:
                changed.append(node_class.name)
        for pool in found.node_pools:
            if (PolicyKind.NODE_CLASS, pool.node_class_name) in found.unreadable:
                continue  # what is stored about the pool is as true as before
            before = stored[PolicyKind.NODE_POOL, pool.name]
            conditions = node_pool_conditions(
                pool,
                class_conditions.get(pool.node_class_name),
                [
                    it
                    for it in usable.get(pool.node_class_name, ())
                    if pool_admits(pool, it)
                ],
                previous=before.status.conditions,
                now=now,
            )
            self._save(before, replace(before.status, conditions=conditions))
        return Refreshed(tuple(changed), tuple(failures), tuple(due))

    def _save(self, before: PolicyObject, status: PolicyStatus) -> None:
        if status == before.status:
            return
        current = self.policy.get(before.kind, before.name)
        if current is None:
            return
        # The launch function decides whether launches are blocked, also during this run.
        merged = replace(status.node_class, **_block(current.status.node_class))
        if _block(current.status.node_class) == _block(before.status.node_class):
            merged = status.node_class
        # so is the result of a dry run
        merged = replace(merged, validation=current.status.node_class.validation)
        self.policy.save_status(
            before.kind, before.name, replace(status, node_class=merged)
        )

    def _status(
        self,
        node_class: NodeClass,
        selection: SelectedReservations,
        errors: dict[ConditionType, str],
    ) -> NodeClassStatus:
        last = node_class.status

        def read(kind: ConditionType, call: Callable[[], T], last_good: T) -> T:
            try:
                return call()
            except AwsError as error:
                errors[kind] = error.code
                return last_good

        role = node_class.role
        return replace(
            last,
            reservation_ids=tuple(reservation.id for reservation in selection.reservations),
            reclaim_group_arn=selection.reclaim_group_arn,
            subnets=read(
                ConditionType.SUBNETS_READY,
                lambda: self.environment.subnets(node_class.subnet_selector_terms),
                last.subnets,
            ),
            security_group_ids=read(
                ConditionType.SECURITY_GROUPS_READY,
                lambda: self.environment.security_group_ids(
                    node_class.security_group_selector_terms
                ),
                last.security_group_ids,
            ),
            machine_images=read(
                ConditionType.AMIS_READY,
                lambda: self.environment.machine_images(node_class.ami_selector_terms),
                last.machine_images,
            ),
            instance_profile=node_class.instance_profile
            if role is None
            else read(
                ConditionType.INSTANCE_PROFILE_READY,
                lambda: self.environment.instance_profile(role),
                last.instance_profile,
            ),
        )


def _newly_unready(
    name: str, before: Sequence[Condition], after: Sequence[Condition]
) -> LaunchesBlocked | None:
    """Return the event of a class that no longer finds, or never found, something that every launch needs.

    Other use cases publish what EC2 refuses, and nodes that do not start, when they find out.
    """
    was, ready = _ready(before), _ready(after)
    if (
        ready is None
        or ready.status is not ConditionStatus.FALSE
        or ready.reason != NONE_FOUND
    ):
        return None
    if was is not None and (was.status, was.message) == (ready.status, ready.message):
        return None
    return LaunchesBlocked(node_class=name, reason=ready.reason, message=ready.message)


def _ready(conditions: Sequence[Condition]) -> Condition | None:
    return next((each for each in conditions if each.type is ConditionType.READY), None)


def unblocked(status: NodeClassStatus, generation: int, now: datetime) -> NodeClassStatus:
    """Let the class launch again once it was changed, or to probe whether what lies outside it was (permissions)."""
    if status.launch_blocked_reason is None:
        return status
    is_other = status.launch_blocked_generation != generation
    is_old = (
        status.launch_blocked_at is None or now - status.launch_blocked_at >= BLOCK_REST
    )
    return replace(status, **_NO_BLOCK) if is_other or is_old else status


def _without_counts(status: NodeClassStatus) -> NodeClassStatus:
    subnets = tuple(replace(subnet, available_ip_count=0) for subnet in status.subnets)
    return replace(status, subnets=subnets)


def _block(status: NodeClassStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in _NO_BLOCK}
