"""Why replicas are not placed: the binding constraint, the nearest offering, the time of change (rule 7)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.core.capacity_reservation import CapacityReservation
from shared.core.instance_type import InstanceType
from shared.core.labels import RESERVATION_LABELS, WELL_KNOWN
from shared.core.offerings import OFFERING_LABELS, selected_reservations
from shared.core.plan import OfferingKey, ReasonCode, UnplacedReplicas
from shared.core.policy import MinValuesPolicy
from shared.core.resources import NODES
from shared.core.solver.groups import Group
from shared.core.solver.market import Entry, OfferedPlace, accepts
from shared.core.solver.selection import Selection, next_step_at
from shared.core.solver.state import State
from shared.core.solver.vectors import copies_that_fit
from shared.core.taint import binding_taints, tolerates_all

_OFFERING_KEYS = OFFERING_LABELS | RESERVATION_LABELS

# How far an offering came, from nothing to everything; the farthest names the reason.
_ORDER = (
    ReasonCode.NO_NODE_POOL,
    ReasonCode.NODE_CLASS_NOT_READY,
    ReasonCode.INCOMPATIBLE,
    ReasonCode.TOO_LARGE,
    ReasonCode.DURATION_DOES_NOT_FIT,
    ReasonCode.FALLBACK_NOT_YET,
    ReasonCode.RESERVATION_NOT_STARTED,
    ReasonCode.OFFERING_UNAVAILABLE,
    ReasonCode.RESERVATION_FULL,
    ReasonCode.LIMIT_EXCEEDED,
    ReasonCode.MAX_PRICE,
    ReasonCode.MIN_VALUES,
    ReasonCode.TOPOLOGY,
)
_RANK = {code: rank for rank, code in enumerate(_ORDER)}


@dataclass(frozen=True, slots=True)
class _Failure:
    code: ReasonCode
    message: str
    key: OfferingKey | None = None
    price: int = 0
    at: datetime | None = None

    @property
    def order(self) -> tuple[int, int, str, str, str]:
        """The farthest first, then the cheapest, then by name."""
        key = self.key
        name = ("", "", "") if key is None else (key.instance_type, key.zone, key.reservation_id or key.capacity_type)
        return (-_RANK[self.code], self.price, *name)


class Reasons:
    """Explains what a finished state left over. Looks at every offering again, so only asked for what is unplaced."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._market = state.market
        self._memo: dict[int, tuple[_Failure, datetime | None]] = {}

    def explain(self, group: Group, key: str, count: int, *, out_of_time: bool = False) -> UnplacedReplicas:
        """Return the reason for ``count`` replicas of one workload."""
        if out_of_time:
            message = "the deadline passed before this workload was looked at"
            return UnplacedReplicas(key, count, ReasonCode.OUT_OF_TIME, message)
        known = self._memo.get(group.index)
        if known is None:
            failures = list(self._failures(group))
            worst = min(failures, key=lambda failure: (failure.order, failure.message))
            times = [failure.at for failure in failures if failure.at is not None]
            known = self._memo[group.index] = (worst, min(times, default=None))
        failure, earliest_at = known
        step_at = self._next_step(group, key)
        if step_at is not None:
            earliest_at = step_at if earliest_at is None else min(step_at, earliest_at)
        code, message = failure.code, failure.message
        if group.workload.gang is not None:
            code = ReasonCode.GANG_INCOMPLETE
            message = f"only all {group.count} replicas together: {failure.code}: {message}"
        return UnplacedReplicas(key, count, code, message, failure.key, earliest_at)

    def _next_step(self, group: Group, key: str) -> datetime | None:
        since = next(pending_since for member, _, pending_since in group.members if member == key)
        return next_step_at(group.workload, since, self._market.now)

    def _failures(self, group: Group) -> Iterator[_Failure]:
        snapshot = self._market.snapshot
        if not snapshot.node_pools:
            yield _Failure(ReasonCode.NO_NODE_POOL, "there is no NodePool")
            return
        if not self._market.entries:
            yield self._no_usable_pool()
            return
        found = False
        for entry in self._market.entries:
            for failure in self._of_entry(entry, group):
                found = True
                yield failure
        if not found:
            yield _Failure(ReasonCode.INCOMPATIBLE, "no pool offers any instance type")

    def _no_usable_pool(self) -> _Failure:
        classes = {item.name: item for item in self._market.snapshot.node_classes}
        problems = []
        for pool in sorted(self._market.snapshot.node_pools, key=lambda item: item.name):
            node_class = classes.get(pool.node_class_name)
            if pool.replicas is not None:
                problems.append(f"{pool.name} is static")
            elif node_class is None:
                problems.append(f"{pool.name}: EC2NodeClass {pool.node_class_name} does not exist")
            else:
                problems.append(f"{pool.name}: {node_class.status.launch_blocked_reason}")
        return _Failure(ReasonCode.NODE_CLASS_NOT_READY, "; ".join(problems))

    def _of_entry(self, entry: Entry, group: Group) -> Iterator[_Failure]:
        selection = group.levels[-1].selection
        name = entry.pool.name
        taints = binding_taints(entry.pool.taints, entry.pool.startup_taints, initialized=False)
        taint = tolerates_all(taints, selection.tolerations)
        if taint is not None:
            yield _Failure(ReasonCode.INCOMPATIBLE, f"pool {name} has the taint {taint}, which is not tolerated")
            return
        types = self._market.entry_types[entry.index]
        if not types:
            message = f"the requirements of pool {name} filtered out all available instance types"
            yield _Failure(ReasonCode.INCOMPATIBLE, message)
            return
        # What the entry settled beyond the pool (labels that the pool leaves open) counts as the pool's own.
        problem = entry.pool.requirements.compatible(selection.terms[0], WELL_KNOWN)
        if problem is not None and len(selection.terms) == 1:
            yield _Failure(ReasonCode.INCOMPATIBLE, f"pool {name}: {problem}")
            return
        for instance_type in types:
            yield from self._of_type(entry, instance_type, group, selection)

    def _of_type(
        self, entry: Entry, instance_type: InstanceType, group: Group, selection: Selection
    ) -> Iterator[_Failure]:
        problems = [
            entry.pool.requirements.merged(instance_type.requirements).compatible(
                term.without(_OFFERING_KEYS), WELL_KNOWN
            )
            for term in selection.terms
        ]
        if all(problem is not None for problem in problems):
            yield _Failure(ReasonCode.INCOMPATIBLE, f"{instance_type.name}: {problems[0]}")
            return
        dimensions = self._state.demands.dimensions
        fits = copies_that_fit(group.request, dimensions.capacity(instance_type.allocatable)) > 0
        if not fits:
            missing = group.workload.requests.missing(instance_type.allocatable).formatted()
            lacking = ", ".join(f"{name} {amount}" for name, amount in missing.items()) or "pods"
            message = f"{instance_type.name}, the nearest type, lacks {lacking}"
            yield _Failure(ReasonCode.TOO_LARGE, message, price=-instance_type.allocatable["cpu"])
            return
        reservations = selected_reservations(self._market.snapshot, entry.node_class)
        for reservation in reservations:
            if reservation.instance_type == instance_type.name:
                failure = self._of_reservation(entry, reservation, instance_type, group, selection)
                if failure is not None:
                    yield failure
        for offering in instance_type.offerings:
            place = OfferedPlace(offering.zone, offering.zone_id, offering.capacity_type)
            price = offering.price_micro_usd_per_hour
            failure = self._of_place(entry, place, instance_type, group, selection, price)
            if failure is None:
                continue
            if failure.code is ReasonCode.TOPOLOGY and not offering.is_available(self._market.now):
                message = f"{_words(failure.key)} had insufficient capacity"
                yield _Failure(ReasonCode.OFFERING_UNAVAILABLE, message, failure.key, price, offering.unavailable_until)
            else:
                yield failure

    def _of_place(
        self,
        entry: Entry,
        place: OfferedPlace,
        instance_type: InstanceType,
        group: Group,
        selection: Selection,
        price: int,
    ) -> _Failure | None:
        """Return why a paid or reserved place does not serve; TOPOLOGY when nothing but its neighbours is left."""
        key = OfferingKey(instance_type.name, place.zone, place.zone_id, place.capacity_type, place.reservation_id)
        labels = place.labels()
        wanted = [item for name, item in entry.pool.requirements.items() if name in _OFFERING_KEYS]
        if not accepts(labels, wanted):
            return None  # the pool does not offer this at all
        subnets = entry.node_class.status.subnets
        if subnets and all(subnet.zone != place.zone for subnet in subnets):
            return _Failure(
                ReasonCode.INCOMPATIBLE, f"class {entry.node_class.name} has no subnet in {place.zone}", key
            )
        if not any(
            accepts(labels, (item for name, item in term.items() if name in _OFFERING_KEYS)) for term in selection.terms
        ):
            return _Failure(ReasonCode.INCOMPATIBLE, f"{_words(key)} is not what the workload selects", key, price)
        if place.capacity_type not in selection.capacity_types:
            message = f"{_words(key)} would serve, but the fallback ladder has not reached {place.capacity_type}"
            allowed = {step.capacity_type for step in group.workload.fallback}
            code = ReasonCode.FALLBACK_NOT_YET if place.capacity_type in allowed else ReasonCode.INCOMPATIBLE
            return _Failure(code, message, key, price)
        failure = self._limited(entry, instance_type, key, price)
        if failure is not None:
            return failure
        cap = group.workload.max_price_micro_usd_per_hour
        if cap is not None and place.reservation is None and price * 10**12 > self._state.budget_left(group):
            message = f"{_words(key)} at {price} micro-USD an hour is over what is left of maxPricePerHour"
            return _Failure(ReasonCode.MAX_PRICE, message, key, price)
        if self._breaks_min_values(entry):
            return _Failure(ReasonCode.MIN_VALUES, f"pool {entry.pool.name}: minValues cannot be met", key, price)
        return _Failure(ReasonCode.TOPOLOGY, f"{_words(key)}: spread, affinity or anti-affinity forbids it", key, price)

    def _breaks_min_values(self, entry: Entry) -> bool:
        is_strict = self._market.policy.min_values_policy is MinValuesPolicy.STRICT
        return is_strict and any(item.min_values for item in entry.pool.requirements.values())

    def _limited(self, entry: Entry, instance_type: InstanceType, key: OfferingKey, price: int) -> _Failure | None:
        for name, left in self._state.supply.limits.get(entry.pool.name, {}).items():
            needed = 1 if name == NODES else instance_type.capacity[name]
            if needed > left:
                message = f"{_words(key)} would exceed the {name} limit of pool {entry.pool.name} ({left} left)"
                return _Failure(ReasonCode.LIMIT_EXCEEDED, message, key, price)
        return None

    def _of_reservation(
        self,
        entry: Entry,
        reservation: CapacityReservation,
        instance_type: InstanceType,
        group: Group,
        selection: Selection,
    ) -> _Failure | None:
        place = OfferedPlace.of(reservation)
        failure = self._of_place(entry, place, instance_type, group, selection, 0)
        if failure is None or failure.code is not ReasonCode.TOPOLOGY:
            return failure
        key, now = failure.key, self._market.now
        if reservation.is_upcoming(now):
            assert reservation.start_at is not None
            if not self._fits_from(reservation, selection, max(now, reservation.start_at)):
                return self._does_not_fit(reservation, key)
            is_late = reservation.start_at <= now
            verb = "has not begun yet and was to start" if is_late else "starts"
            message = f"{_words(key)} {verb} at {reservation.start_at.isoformat()}"
            earliest_at = None if is_late else reservation.start_at  # one that is late may begin any moment
            return _Failure(ReasonCode.RESERVATION_NOT_STARTED, message, key, 0, earliest_at)
        if not reservation.is_active(now):
            return _Failure(ReasonCode.INCOMPATIBLE, f"{_words(key)} is {reservation.state} or already drains", key)
        if not self._market.outlives(reservation, selection):
            return self._does_not_fit(reservation, key)
        if self._state.supply.units.get(reservation.id, 0) <= 0:
            message = f"{_words(key)} has no free unit ({reservation.total_count} in all)"
            return _Failure(ReasonCode.RESERVATION_FULL, message, key)
        return failure

    def _fits_from(self, reservation: CapacityReservation, selection: Selection, start_at: datetime) -> bool:
        drain_at = reservation.drain_at(timedelta(seconds=selection.notice_s))
        duration = timedelta(seconds=selection.duration_s or 0)
        return drain_at is None or start_at + duration <= drain_at

    def _does_not_fit(self, reservation: CapacityReservation, key: OfferingKey | None) -> _Failure:
        drain_at = reservation.drain_at()
        until = "" if drain_at is None else f" at {drain_at.isoformat()}"
        message = f"the work would not be through before {_words(key)} drains{until}"
        return _Failure(ReasonCode.DURATION_DOES_NOT_FIT, message, key)


def _words(key: OfferingKey | None) -> str:
    if key is None:
        return "nothing"
    where = f"{key.instance_type} {key.capacity_type} in {key.zone}"
    return where if key.reservation_id is None else f"{where} of {key.reservation_id}"
