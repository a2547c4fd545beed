"""Why replicas are not placed: the binding constraint, the nearest offering, the time of change (rule 7)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared.core.capacity_reservation import CapacityReservation
from shared.core.instance_type import CapacityType, InstanceType
from shared.core.labels import RESERVATION_LABELS, WELL_KNOWN
from shared.core.money import ATTO_USD_PER_MICRO_USD
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
    ReasonCode.SPOT_SHARE,
    ReasonCode.TOPOLOGY,
)
_LAST = (ReasonCode.SPOT_SHARE, ReasonCode.TOPOLOGY)  # what is left when all that the offering says is in favour
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


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What a group asks of an offering, its size apart.

    ``budget`` is what maxPricePerHour leaves, in atto-USD; ``nodes`` is how many it may need at once.
    """

    selection: Selection
    ladder: frozenset[CapacityType]
    budget: int | None
    nodes: int


@dataclass(slots=True)
class _Outlook:
    """What speaks against the types of a pool, for all groups with the same wishes.

    ``sized`` counts only for replicas that fit the type: the worst failure of each, the worst of all first; ``timed``
    is when any of a type's failures could change, the soonest first.
    """

    always: _Failure | None = None
    sized: list[tuple[InstanceType, _Failure]] = field(default_factory=list)
    timed: list[tuple[datetime, InstanceType]] = field(default_factory=list)
    types: list[InstanceType] = field(default_factory=list)  # that size alone may rule out


class Reasons:
    """Explains what a finished state left over. Looks at every offering again, so only asked for what is unplaced."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._market = state.market
        self._memo: dict[int, tuple[_Failure, datetime | None]] = {}
        self._outlooks: dict[tuple[int, _Wishes], _Outlook] = {}

    def explain(self, group: Group, key: str, count: int, *, out_of_time: bool = False) -> UnplacedReplicas:
        """Return the reason for ``count`` replicas of one workload."""
        if out_of_time:
            message = "not looked further: the deadline passed before every place for it was tried"
            return UnplacedReplicas(key, count, ReasonCode.OUT_OF_TIME, message)
        known = self._memo.get(group.index)
        if known is None:
            failures = list(self._failures(group))
            worst = min(failures, key=_sort_key)
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
        wishes = self._wishes(group)
        for entry in self._market.entries:
            for failure in self._of_entry(entry, group, wishes):
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

    def _wishes(self, group: Group) -> _Wishes:
        ladder = frozenset(step.capacity_type for step in group.workload.fallback)
        budget = self._state.budget_left(group) if group.is_price_capped else None
        nodes = 1 if group.workload.gang is None else group.count
        return _Wishes(group.levels[-1].selection, ladder, budget, nodes)

    def _of_entry(self, entry: Entry, group: Group, wishes: _Wishes) -> Iterator[_Failure]:
        selection = wishes.selection
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
        if (entry.index, wishes) not in self._outlooks:
            self._outlooks[entry.index, wishes] = self._outlook(entry, types, wishes)
        outlook = self._outlooks[entry.index, wishes]
        if outlook.always is not None:
            yield outlook.always
        worst = next((failure for kind, failure in outlook.sized if self._fits(group, kind)), None)
        if worst is not None:
            yield replace(worst, at=next((at for at, kind in outlook.timed if self._fits(group, kind)), None))
        if worst is None or _RANK[worst.code] < _RANK[ReasonCode.TOO_LARGE]:
            yield from self._too_large(outlook.types, group)

    def _fits(self, group: Group, kind: InstanceType) -> bool:
        return copies_that_fit(group.request, self._state.demands.dimensions.capacity(kind.allocatable)) > 0

    def _too_large(self, types: Sequence[InstanceType], group: Group) -> Iterator[_Failure]:
        """Yield what the types with the most CPU lack, of those that are too small."""
        small = [kind for kind in types if not self._fits(group, kind)]
        most = max((kind.allocatable["cpu"] for kind in small), default=0)
        for kind in small:
            if kind.allocatable["cpu"] == most:
                missing = group.workload.requests.missing(kind.allocatable).formatted()
                lacking = ", ".join(f"{name} {amount}" for name, amount in missing.items()) or "pods"
                yield _Failure(ReasonCode.TOO_LARGE, f"{kind.name}, the nearest type, lacks {lacking}", price=-most)

    def _outlook(self, entry: Entry, types: Iterable[InstanceType], wishes: _Wishes) -> _Outlook:
        found = _Outlook()
        incompatible: list[_Failure] = []
        for kind in types:
            merged = entry.pool.requirements.merged(kind.requirements)
            terms = [term.without(_OFFERING_KEYS) for term in wishes.selection.terms]
            problems = [merged.compatible(term, WELL_KNOWN) for term in terms]
            if all(problem is not None for problem in problems):
                incompatible.append(_Failure(ReasonCode.INCOMPATIBLE, f"{kind.name}: {problems[0]}"))
                continue
            found.types.append(kind)
            failures = list(self._of_type(entry, kind, wishes))
            if failures:
                found.sized.append((kind, min(failures, key=_sort_key)))
                found.timed.extend((failure.at, kind) for failure in failures if failure.at is not None)
        found.always = min(incompatible, key=_sort_key, default=None)
        found.sized.sort(key=lambda pair: _sort_key(pair[1]))
        found.timed.sort(key=lambda pair: pair[0])
        return found

    def _of_type(self, entry: Entry, instance_type: InstanceType, wishes: _Wishes) -> Iterator[_Failure]:
        """Yield what speaks against each place of a type, for replicas that fit it."""
        reservations = selected_reservations(self._market.snapshot, entry.node_class)
        for reservation in reservations:
            if reservation.instance_type == instance_type.name:
                failure = self._of_reservation(entry, reservation, instance_type, wishes)
                if failure is not None:
                    yield failure
        for offering in instance_type.offerings:
            place = OfferedPlace(offering.zone, offering.zone_id, offering.capacity_type)
            price = offering.price_micro_usd_per_hour
            failure = self._of_place(entry, place, instance_type, wishes, price)
            if failure is None:
                continue
            if failure.code in _LAST and not offering.is_available(self._market.now):
                why = offering.unavailable_reason
                message = (
                    f"{_words(failure.key)} rests: {why}" if why else f"{_words(failure.key)} had insufficient capacity"
                )
                yield _Failure(ReasonCode.OFFERING_UNAVAILABLE, message, failure.key, price, offering.unavailable_until)
            else:
                yield failure

    def _of_place(
        self, entry: Entry, place: OfferedPlace, instance_type: InstanceType, wishes: _Wishes, price: int
    ) -> _Failure | None:
        """Return why a paid or reserved place does not serve; TOPOLOGY when nothing but its neighbours is left."""
        selection = wishes.selection
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
            code = ReasonCode.FALLBACK_NOT_YET if place.capacity_type in wishes.ladder else ReasonCode.INCOMPATIBLE
            return _Failure(code, message, key, price)
        failure = self._limited(entry, instance_type, key, price)
        if failure is not None:
            return failure
        is_capped = wishes.budget is not None and place.reservation is None
        if is_capped and price * ATTO_USD_PER_MICRO_USD > (wishes.budget or 0):
            message = f"{_words(key)} at {price} micro-USD an hour is over what is left of maxPricePerHour"
            return _Failure(ReasonCode.MAX_PRICE, message, key, price)
        if self._breaks_min_values(entry):
            return _Failure(ReasonCode.MIN_VALUES, f"pool {entry.pool.name}: minValues cannot be met", key, price)
        if self._state.supply.spot_left(key) < wishes.nodes:
            share = self._market.policy.spot_pool_share_percent
            message = f"more of {_words(key)} would be over its share, {share} % of the plan's spot nodes"
            return _Failure(ReasonCode.SPOT_SHARE, message, key, price)
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
        self, entry: Entry, reservation: CapacityReservation, instance_type: InstanceType, wishes: _Wishes
    ) -> _Failure | None:
        selection = wishes.selection
        failure = self._of_place(entry, OfferedPlace.of(reservation), instance_type, wishes, 0)
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


def _sort_key(failure: _Failure) -> tuple[tuple[int, int, str, str, str], str]:
    """Sort failures, the one that names the reason first."""
    return failure.order, failure.message


def _words(key: OfferingKey | None) -> str:
    if key is None:
        return "nothing"
    where = f"{key.instance_type} {key.capacity_type} in {key.zone}"
    return where if key.reservation_id is None else f"{where} of {key.reservation_id}"
