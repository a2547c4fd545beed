"""Why replicas are not placed: the binding constraint, the nearest offering, the time of change (rule 7)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import attrgetter

from shared.core.capacity.offerings import selected_reservations
from shared.core.explaining.mismatches import OFFERING_KEYS, Mismatches, too_large, unmet_requirements
from shared.core.explaining.offering_failures import LAST, Failure, at, no_room_in_quota, no_unit, words
from shared.core.explaining.paused_pools import paused_pools
from shared.core.explaining.topology_reasons import topology_message
from shared.core.model.capacity_reservation import ACTIVE, CapacityReservation
from shared.core.model.instance_type import CapacityType, InstanceType
from shared.core.model.plan import OfferingKey, ReasonCode, UnplacedReplicas
from shared.core.model.policy import MinValuesPolicy
from shared.core.model.workload import Withheld
from shared.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, usd
from shared.core.scheduling_terms.resources import NODES, Resources
from shared.core.scheduling_terms.taint import untolerated
from shared.core.solver.problem.catalogue import Entry, OfferedPlace, accepts, counted
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.selection import Selection
from shared.core.solver.problem.vectors import copies_that_fit
from shared.core.solver.solution.partial_plan import PartialPlan

_order = attrgetter("order")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a group asks of an offering, its size apart.

    ``budget`` is what maxPricePerHour leaves, in atto-USD; ``nodes`` is how many it may need at once.
    """

    selection: Selection
    ladder: frozenset[CapacityType]
    budget: int | None
    nodes: int
    team_budget: int | None = None  # what the team's budget leaves, in atto-USD
    withheld: tuple[Withheld, ...] = ()


@dataclass(slots=True)
class _Outlook:
    """What speaks against the types of a pool, for all groups with the same requirement sets.

    ``sized`` counts only for replicas that fit the type: the worst failure of each, the worst of all first; ``timed``
    is when any of a type's failures could change, the soonest first.
    """

    always: Failure | None = None
    sized: list[tuple[InstanceType, Failure]] = field(default_factory=list)
    timed: list[tuple[datetime, InstanceType]] = field(default_factory=list)
    types: list[InstanceType] = field(default_factory=list)  # that size alone may rule out


class Reasons:
    """Explains what a finished state left over. Looks at every offering again, so only asked for what is unplaced."""

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._catalogue = state.catalogue
        self._memo: dict[int, tuple[Failure, datetime | None]] = {}
        self._outlooks: dict[tuple[int, _Asked], _Outlook] = {}
        self._mismatches = Mismatches(state.catalogue)

    # Branches: the reason is found once a group; then each part of the sentence has its condition.
    def explain(self, group: Group, key: str, count: int) -> UnplacedReplicas:
        """Return the reason for ``count`` replicas of one workload."""
        if group.index in self._state.unlooked:
            message = "not looked further: the deadline passed before every place for it was tried"
            return UnplacedReplicas(key, count, ReasonCode.OUT_OF_TIME, message)
        known = self._memo.get(group.index)
        if known is None:
            failures = list(self._failures(group))
            worst = min(failures, key=_order)
            times = [failure.at for failure in failures if failure.at is not None]
            known = self._memo[group.index] = (worst, min(times, default=None))
        failure, earliest_at = known
        step_at = self._next_step(group, key)
        if step_at is not None:
            earliest_at = step_at if earliest_at is None else min(step_at, earliest_at)
        code, message = failure.code, failure.message
        if code is ReasonCode.TOPOLOGY:
            message = topology_message(self._state, group) or self._too_few_units(group) or message
        if group.workload.gang is not None:
            code = ReasonCode.GANG_INCOMPLETE
            message = f"only all {group.count} replicas together: {message}"
        return UnplacedReplicas(key, count, code, message, failure.key, earliest_at)

    def of_places(self, group: Group) -> Iterator[tuple[str, Failure]]:
        """Yield what speaks against each place that is of the right kind, with the name of its pool.

        Places that nothing speaks against but their neighbours and shares are among them (``LAST``).
        """
        asked = self._asked(group)
        for entry in self._catalogue.entries:
            binding = entry.taints
            if any(untolerated(binding, asked.selection.tolerations)):
                continue
            for kind in entry.types:
                if self._fits(group, kind) and not self._misses(entry, kind, asked):
                    for failure in self._of_type(entry, kind, asked):
                        if not failure.is_mismatch:
                            yield entry.pool.name, failure

    def _misses(self, entry: Entry, kind: InstanceType, asked: _Asked) -> list[str]:
        """Return what a type in a pool does not meet of the nearest of the terms."""
        merged = entry.pool.requirements.merged(kind.requirements)
        return min((unmet_requirements(merged, term.without(OFFERING_KEYS)) for term in asked.selection.terms), key=len)

    def _too_few_units(self, group: Group) -> str | None:
        """Say how many replicas the free reserved units hold, where a gang may have nothing but those."""
        state, asked = self._state, group.requirement_sets[-1]
        options = [option for option in self._catalogue.options if option.requirement_sets & asked]
        if group.workload.gang is None or any(option.reservation is None for option in options):
            return None
        free = {
            option.reservation.id: copies_that_fit(group.request, option.allocatable)
            * max(0, state.residual.units.get(option.unit_key, 0))
            for option in options
            if option.reservation is not None
        }
        held = ", ".join(f"{count} in {name}" for name, count in sorted(free.items()))
        return f"the free reserved units hold {sum(free.values())} of them ({held})" if free else None

    def _next_step(self, group: Group, key: str) -> datetime | None:
        since = next(pending_since for member, _, pending_since in group.members if member == key)
        return group.workload.next_step_at(since, self._catalogue.now)

    def _failures(self, group: Group) -> Iterator[Failure]:
        snapshot = self._catalogue.snapshot
        if not snapshot.node_pools:
            yield Failure(ReasonCode.NO_NODE_POOL, "there is no NodePool")
            return
        paused = list(paused_pools(snapshot, self._asked(group).selection, lambda kind: self._fits(group, kind)))
        yield from paused
        if not self._catalogue.entries:
            yield self._no_usable_pool()
            return
        found = bool(paused)
        asked = self._asked(group)
        for entry in self._catalogue.entries:
            for failure in self._of_entry(entry, group, asked):
                found = True
                yield failure
        if not found:
            yield Failure(ReasonCode.INCOMPATIBLE, "no pool sells any instance type", misses=1)

    def _no_usable_pool(self) -> Failure:
        classes = {item.name: item for item in self._catalogue.snapshot.node_classes}
        problems = []
        for pool in sorted(self._catalogue.snapshot.node_pools, key=lambda item: item.name):
            node_class = classes.get(pool.node_class_name)
            if pool.replicas is not None:
                problems.append(f"{pool.name} is static")
            elif pool.paused is not None:
                problems.append(f"{pool.name} is paused {pool.paused}")
            elif node_class is None:
                problems.append(f"{pool.name}: EC2NodeClass {pool.node_class_name} does not exist")
            else:
                problems.append(f"{pool.name}: {node_class.status.launch_blocked_reason}")
        is_paused = any(pool.paused is not None for pool in self._catalogue.snapshot.node_pools)
        code = ReasonCode.INCOMPATIBLE if is_paused else ReasonCode.NODE_CLASS_NOT_READY
        return Failure(code, "; ".join(problems), misses=1 if is_paused else 0)

    def _asked(self, group: Group) -> _Asked:
        ladder = frozenset(step.capacity_type for step in group.workload.fallback)
        budget = self._state.budget_left(group) if group.is_price_capped else None
        nodes = 1 if group.workload.gang is None else group.count
        team_budget = None if group.team_budget is None else self._state.team_budget_left(group)
        return _Asked(group.levels[-1].selection, ladder, budget, nodes, team_budget, group.withheld)

    def _of_entry(self, entry: Entry, group: Group, asked: _Asked) -> Iterator[Failure]:
        """Yield what speaks against a pool; against one with taints the nearest failure only, the taints counted in."""
        binding = entry.taints
        taints = tuple(untolerated(binding, asked.selection.tolerations))
        if not taints:
            yield from self._of_tolerated(entry, group, asked)
            return
        name, shown = entry.pool.name, " and ".join(map(str, taints))
        verb = f"has the taint {shown}, which is" if len(taints) == 1 else f"has the taints {shown}, which are"
        behind = min(self._of_tolerated(entry, group, asked), key=_mismatch_order, default=None)
        if behind is None or not behind.is_mismatch:
            message = f"pool {name} would serve, but {verb} not tolerated"
            yield Failure(ReasonCode.INCOMPATIBLE, message, misses=len(taints))
            return
        message = f"pool {name} {verb} not tolerated; besides, {behind.message}"
        yield replace(behind, code=ReasonCode.INCOMPATIBLE, message=message, misses=behind.misses + len(taints))

    # Branches: what always fails, then what fails by size; each yields its own failure.
    def _of_tolerated(self, entry: Entry, group: Group, asked: _Asked) -> Iterator[Failure]:
        """Yield what speaks against a pool, its taints apart."""
        wrong = self._of_wrong_pool(entry, asked)
        if wrong is not None:
            yield wrong
            return
        if (entry.index, asked) not in self._outlooks:
            types = entry.types
            self._outlooks[entry.index, asked] = self._outlook(entry, types, asked)
        outlook = self._outlooks[entry.index, asked]
        if outlook.always is not None:
            yield outlook.always
        worst = next((failure for kind, failure in outlook.sized if self._fits(group, kind)), None)
        if worst is not None:
            yield replace(worst, at=next((when for when, kind in outlook.timed if self._fits(group, kind)), None))
        if worst is None or worst.is_mismatch:
            small = [kind for kind in outlook.types if not self._fits(group, kind)]
            if small:
                yield too_large(entry.pool.name, small, group.workload)

    def _of_wrong_pool(self, entry: Entry, asked: _Asked) -> Failure | None:
        """Return why no type of the pool could ever serve, whatever its size."""
        name, terms = entry.pool.name, asked.selection.terms
        if not entry.types:
            message = f"the requirements of pool {name} filtered out all available instance types"
            return Failure(ReasonCode.INCOMPATIBLE, message, misses=1)
        # What the entry settled beyond the pool (labels that the pool leaves open) counts as the pool's own.
        problems = unmet_requirements(entry.pool.requirements, terms[0])
        if problems and len(terms) == 1:
            return Failure(ReasonCode.INCOMPATIBLE, f"pool {name}: {'; '.join(problems)}", misses=len(problems))
        return self._mismatches.of_offerings(entry, terms)

    def _fits(self, group: Group, kind: InstanceType) -> bool:
        return copies_that_fit(group.request, self._state.demands.dimensions.capacity(kind.allocatable)) > 0

    def _outlook(self, entry: Entry, types: Iterable[InstanceType], asked: _Asked) -> _Outlook:
        found = _Outlook()
        incompatible: list[Failure] = []
        reserved = {it.instance_type for it in selected_reservations(self._catalogue.snapshot, entry.node_class)}
        for kind in types:
            if not self._mismatches.sells(entry, kind, reserved):
                continue
            problems = self._misses(entry, kind, asked)
            if problems:
                message = f"{kind.name} of pool {entry.pool.name}: {'; '.join(problems)}"
                incompatible.append(Failure(ReasonCode.INCOMPATIBLE, message, misses=len(problems)))
                continue
            found.types.append(kind)
            failures = list(self._of_type(entry, kind, asked))
            if failures:
                found.sized.append((kind, min(failures, key=_order)))
                found.timed.extend((failure.at, kind) for failure in failures if failure.at is not None)
        found.always = min(incompatible, key=_order, default=None)
        found.sized.sort(key=lambda pair: _order(pair[1]))
        found.timed.sort(key=lambda pair: pair[0])
        return found

    # Branches: two lists of places, each place with its own failure.
    def _of_type(self, entry: Entry, instance_type: InstanceType, asked: _Asked) -> Iterator[Failure]:
        """Yield what speaks against each place of a type, for replicas that fit it."""
        reservations = selected_reservations(self._catalogue.snapshot, entry.node_class)
        for reservation in reservations:
            is_its_own = reservation.share is None or reservation.share.team_name == asked.selection.team_name
            if reservation.instance_type == instance_type.name and is_its_own:
                failure = self._of_reservation(entry, reservation, instance_type, asked)
                if failure is not None:
                    yield failure
        for offering in instance_type.offerings:
            place = OfferedPlace(offering.zone, offering.zone_id, offering.capacity_type)
            price = offering.price_micro_usd_per_hour
            failure = self._of_place(entry, place, instance_type, asked, price)
            if failure is None:
                continue
            if failure.code in LAST and not offering.is_available(self._catalogue.now):
                why = offering.unavailable_reason
                message = (
                    f"{words(failure.key)} rests: {why}" if why else f"{words(failure.key)} had insufficient capacity"
                )
                yield Failure(ReasonCode.OFFERING_UNAVAILABLE, message, failure.key, price, offering.unavailable_until)
            else:
                yield failure

    def _of_place(
        self, entry: Entry, place: OfferedPlace, instance_type: InstanceType, asked: _Asked, price: int
    ) -> Failure | None:
        """Return why a paid or reserved place does not serve; TOPOLOGY when nothing but its neighbours is left."""
        key = place.key(instance_type)
        wanted = [item for name, item in entry.pool.requirements.items() if name in OFFERING_KEYS]
        if not accepts(place.labels(), wanted):
            return None  # the pool does not offer this at all
        return (
            self._of_wrong_place(entry, place, key, asked, price)
            or self._limited(entry, instance_type, key, price)
            or self._of_rules(entry, place, key, asked, price)
            or Failure(ReasonCode.TOPOLOGY, f"{words(key)}: spread, affinity or anti-affinity forbids it", key, price)
        )

    # Branches: one question after the other, each with its own answer.
    def _of_wrong_place(
        self, entry: Entry, place: OfferedPlace, key: OfferingKey, asked: _Asked, price: int
    ) -> Failure | None:
        """Return why the place is not one for this work now, whatever is free there."""
        status, name, labels = entry.node_class.status, entry.node_class.name, place.labels()
        if status.subnets and all(subnet.zone_id != place.zone_id for subnet in status.subnets):
            message = f"class {name} has no subnet in {place.zone}"
            return Failure(ReasonCode.INCOMPATIBLE, message, key, misses=1)
        wanted = ([item for name, item in term.items() if name in OFFERING_KEYS] for term in asked.selection.terms)
        if not any(accepts(labels, term) for term in wanted):
            message = f"{words(key)} is not what the workload selects"
            return Failure(ReasonCode.INCOMPATIBLE, message, key, price, misses=1)
        withheld = no_room_in_quota(asked.withheld, key, price)
        if withheld is not None:
            return withheld
        if place.capacity_type not in asked.selection.capacity_types:
            message = f"{words(key)} would serve, but the fallback ladder has not reached {place.capacity_type}"
            is_later = place.capacity_type in asked.ladder
            code = ReasonCode.FALLBACK_NOT_YET if is_later else ReasonCode.INCOMPATIBLE
            return Failure(code, message, key, price, misses=1)
        full_until = status.zones_full_until.get(place.zone_id)
        if full_until is not None:
            message = f"no subnet of class {name} in {place.zone} has a free address"
            return Failure(ReasonCode.OFFERING_UNAVAILABLE, message, key, price, full_until)
        return None

    def _of_rules(
        self, entry: Entry, place: OfferedPlace, key: OfferingKey, asked: _Asked, price: int
    ) -> Failure | None:
        """Return which rule about money, variety or shares forbids the place."""
        is_bought = place.reservation is None
        if is_bought and asked.team_budget is not None and price * ATTO_USD_PER_MICRO_USD > asked.team_budget:
            left = usd(max(0, asked.team_budget) // ATTO_USD_PER_MICRO_USD)
            has_ceiling = self._catalogue.snapshot.ceiling_micro_usd_per_hour is not None
            whose = (
                "its team's budget and the deployment's ceiling leave" if has_ceiling else "its team's budget leaves"
            )
            message = f"{words(key)} costs {usd(price)} an hour, and {whose} {left}"
            return Failure(ReasonCode.TEAM_BUDGET, message, key, price)
        if is_bought and asked.budget is not None and price * ATTO_USD_PER_MICRO_USD > asked.budget:
            left = usd(max(0, asked.budget) // ATTO_USD_PER_MICRO_USD)
            message = f"{words(key)} costs {usd(price)} an hour, and maxPricePerHour leaves {left}"
            return Failure(ReasonCode.MAX_PRICE, message, key, price)
        if self._breaks_min_values(entry):
            return Failure(ReasonCode.MIN_VALUES, f"pool {entry.pool.name}: minValues cannot be met", key, price)
        if self._state.residual.spot_left(key) < asked.nodes:
            share = self._catalogue.policy.spot_pool_share_percent
            message = f"more of {words(key)} would be over its share, {share} % of the plan's spot nodes"
            return Failure(ReasonCode.SPOT_SHARE, message, key, price)
        return None

    def _breaks_min_values(self, entry: Entry) -> bool:
        is_strict = self._catalogue.policy.min_values_policy is MinValuesPolicy.STRICT
        return is_strict and any(item.min_values for item in entry.pool.requirements.values())

    def _limited(self, entry: Entry, instance_type: InstanceType, key: OfferingKey, price: int) -> Failure | None:
        for name, left in self._state.residual.limits.get(entry.pool.name, {}).items():
            needed = counted(instance_type.capacity, name)
            if needed > left:
                shown = str(left) if name == NODES else Resources.of({name: left}).formatted()[name]
                message = f"{words(key)} would exceed the {name} limit of pool {entry.pool.name} ({shown} left)"
                return Failure(ReasonCode.LIMIT_EXCEEDED, message, key, price)
        return None

    # Branches: one question after the other, each with its own answer.
    def _of_reservation(
        self, entry: Entry, reservation: CapacityReservation, instance_type: InstanceType, asked: _Asked
    ) -> Failure | None:
        selection = asked.selection
        failure = self._of_place(entry, OfferedPlace.of(reservation), instance_type, asked, 0)
        if failure is None or failure.code is not ReasonCode.TOPOLOGY:
            return failure
        key, now = failure.key, self._catalogue.now
        if reservation.is_upcoming(now):
            assert reservation.start_at is not None
            if not self._fits_from(reservation, selection, max(now, reservation.start_at)):
                return self._does_not_fit(reservation, selection, key)
            is_late = reservation.start_at <= now
            verb = "has not begun yet and was to start" if is_late else "starts"
            message = f"{words(key)} {verb} at {reservation.start_at.isoformat()}"
            earliest_at = None if is_late else reservation.start_at  # one that is late may begin any moment
            return Failure(ReasonCode.RESERVATION_NOT_STARTED, message, key, 0, earliest_at)
        if reservation.state != ACTIVE:
            return Failure(ReasonCode.INCOMPATIBLE, f"{words(key)} is {reservation.state}", key, misses=1)
        if not reservation.is_active(now):
            message = f"{words(key)} ends{at(reservation.end_at)} and takes no new work: its nodes drain"
            return Failure(ReasonCode.DURATION_DOES_NOT_FIT, message, key)
        if not self._catalogue.is_in_time(reservation.drain_at(), selection):
            return self._does_not_fit(reservation, selection, key)
        if self._state.residual.units.get(reservation.unit_key, 0) <= 0:
            return no_unit(reservation, key)
        return failure

    def _fits_from(self, reservation: CapacityReservation, selection: Selection, start_at: datetime) -> bool:
        drain_at = reservation.drain_at(timedelta(seconds=selection.notice_s))
        duration = timedelta(seconds=selection.duration_s or 0)
        return drain_at is None or start_at + duration <= drain_at

    def _does_not_fit(self, reservation: CapacityReservation, selection: Selection, key: OfferingKey | None) -> Failure:
        if selection.duration_s is None:
            message = f"it says no duration, and noDurationPolicy Avoid keeps such work out of {words(key)}, which ends"
            return Failure(ReasonCode.DURATION_DOES_NOT_FIT, message + at(reservation.end_at), key)
        message = f"the work would not be through before {words(key)} drains{at(reservation.drain_at())}"
        return Failure(ReasonCode.DURATION_DOES_NOT_FIT, message, key)


def _mismatch_order(failure: Failure) -> tuple[object, ...]:
    """Sort what lies behind a taint: whatever would serve, now or later, first."""
    return (failure.is_mismatch, failure.misses, *failure.order)
