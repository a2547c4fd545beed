"""Why replicas are not placed: the binding constraint, the nearest offering, the time of change (rule 7)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import attrgetter, itemgetter

from reservoir.core.capacity.offerings import selected_reservations
from reservoir.core.explaining.gang_reasons import limits_or_money, too_few_units
from reservoir.core.explaining.mismatches import Mismatches, too_large, unmet_requirements
from reservoir.core.explaining.offering_failures import LAST, Failure
from reservoir.core.explaining.paused_pools import (
    blocked_class,
    looked_at,
    paused_pools,
    pools_of_blocked_classes,
    would_serve,
)
from reservoir.core.explaining.place_reasons import Asked, PlaceReasons
from reservoir.core.explaining.pool_reasons import OFFERING_KEYS, no_type
from reservoir.core.explaining.topology_reasons import topology_message
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.taint import untolerated
from reservoir.core.solver.problem.catalogue import Entry, LaunchOption
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.selection import Selection
from reservoir.core.solver.problem.vectors import copies_that_fit
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.substitutes import Substitutes

_order = attrgetter("order")


@dataclass(frozen=True, slots=True)
class _TypeFailures:
    """Why the types of a pool cannot serve, for all groups with the same requirement sets.

    ``sized`` counts only for replicas that fit the type: the worst failure of each, the worst of all first; ``timed``
    is when any of a type's failures could change, the soonest first.
    """

    always: Failure | None
    sized: Sequence[tuple[InstanceType, Failure]]
    timed: Sequence[tuple[datetime, InstanceType]]
    # reservations to come, the soonest first
    upcoming: Sequence[tuple[InstanceType, Failure]]
    types: Sequence[InstanceType]  # that size alone may rule out


class Reasons:
    """Explains why a finished state left replicas over.

    Checks every offering again, so it is only used for unplaced demand.
    """

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._catalogue = state.catalogue
        self._memo: dict[int, tuple[Failure, datetime | None]] = {}
        self._of_types: dict[tuple[int, Asked], _TypeFailures] = {}
        self._mismatches = Mismatches(state.catalogue)
        self._places = PlaceReasons(state)
        self._substitutes = Substitutes(state.catalogue)

    # Branches: questions about time and gangs in a line each, around a reason that is looked for once.
    def explain(self, group: Group, key: str, count: int) -> UnplacedReplicas:
        """Return the reason for ``count`` replicas of one workload."""
        if group.index in self._state.unlooked:
            message = "the search was stopped: the deadline passed before every place for it was tried"
            return UnplacedReplicas(key, count, ReasonCode.OUT_OF_TIME, message)
        known = self._memo.get(group.index)
        if known is None:
            if self._catalogue.policy.expired():
                message = "no place was found before the deadline, which left no time to find out why"
                return UnplacedReplicas(key, count, ReasonCode.OUT_OF_TIME, message)
            failures = list(self._failures(group))
            worst = min(failures, key=_order)
            times = [failure.at for failure in failures if failure.at is not None]
            if worst.code is ReasonCode.TOPOLOGY:
                worst = replace(worst, message=self._of_neighbours(group) or worst.message)
            worst = _with_what_is_to_come(worst, failures)
            known = self._memo[group.index] = (worst, min(times, default=None))
        failure, earliest_at = known
        step_at = self._next_step(group, key)
        if step_at is not None:
            earliest_at = step_at if earliest_at is None else min(step_at, earliest_at)
        code, message = failure.code, failure.message
        if group.workload.gang is not None:
            code = ReasonCode.GANG_INCOMPLETE
            message = f"all {group.count} replicas need a place together: {message}"
        return UnplacedReplicas(key, count, code, message, failure.key, earliest_at)

    def _of_neighbours(self, group: Group) -> str | None:
        """Return what keeps replicas from places that would each serve: their rules, or that all are needed at once."""
        state = self._state
        levels = {group.index: len(group.levels) - 1}

        def nearest(key: str, domain: str) -> str | None:
            return self._nearest_in(group, key, domain)

        def has_choice(option: LaunchOption) -> bool:
            return self._substitutes.holds(state, option, group.request, levels)

        rule = topology_message(state, group, nearest, has_choice)
        if group.workload.gang is None:
            return rule
        message = too_few_units(state, group) or rule or limits_or_money(state, group)
        if message is None and group.constraints[-1].is_free:
            return "no plan with room for all of them at once was found"
        return message

    def _nearest_in(self, group: Group, key: str, domain: str) -> str | None:
        """Return why the nearest place in a domain cannot serve; None where only the rules forbid it."""
        tolerations, by_term = group.levels[-1].selection.tolerations, self._asked(group)
        found: list[Failure] = []
        for entry in self._catalogue.entries:
            if any(untolerated(entry.taints, tolerations)):
                continue
            for instance_type in entry.types:
                if not self._fits(group, instance_type):
                    continue
                labels = {**instance_type.requirements.labels(), **entry.labels}
                nearest = self._nearest(entry, instance_type, by_term)
                found += [
                    it
                    for it in nearest
                    if it.code not in LAST and it.labels(labels).get(key) == domain
                ]
        return min(found, key=_order).message if found else None

    def of_places(self, group: Group) -> Iterator[tuple[str, Failure]]:
        """Yield why each place of the right kind cannot serve, with the name of its pool.

        Places that could serve but for their neighbours and shares are among them (``LAST``).
        """
        by_term = self._asked(group)
        for entry in self._catalogue.entries:
            if not any(untolerated(entry.taints, group.levels[-1].selection.tolerations)):
                for instance_type in entry.types:
                    if self._fits(group, instance_type):
                        nearest = self._nearest(entry, instance_type, by_term)
                        yield from (
                            (entry.pool.name, failure)
                            for failure in nearest
                            if not failure.is_mismatch
                        )

    def _nearest(
        self, entry: Entry, instance_type: InstanceType, by_term: Iterable[Asked]
    ) -> Iterable[Failure]:
        """Return for each place of a type why it cannot serve, by the term that comes farthest there."""
        nearest: dict[OfferingKey | None, Failure] = {}
        for asked in by_term:
            if not self._misses(entry, instance_type, asked):
                for failure in self._places.of_type(entry, instance_type, asked):
                    nearest[failure.key] = min(
                        failure, nearest.get(failure.key, failure), key=_order
                    )
        return nearest.values()

    def _misses(self, entry: Entry, instance_type: InstanceType, asked: Asked) -> list[str]:
        """Return what a type in a pool does not meet of the term."""
        return unmet_requirements(
            entry.pool.requirements.merged(instance_type.requirements),
            asked.term.without(OFFERING_KEYS),
        )

    def _next_step(self, group: Group, key: str) -> datetime | None:
        since = next(
            pending_since for member, _, pending_since in group.members if member == key
        )
        return group.workload.next_step_at(since, self._catalogue.now)

    def _failures(self, group: Group) -> Iterator[Failure]:
        snapshot = self._catalogue.snapshot
        if not snapshot.node_pools:
            yield Failure(ReasonCode.NO_NODE_POOL, "there is no NodePool")
            return
        selection = group.levels[-1].selection
        fits = partial(self._fits, group)
        paused = list(paused_pools(snapshot, selection, fits))
        yield from paused
        if not self._catalogue.entries:
            yield self._no_usable_pool(_meant(snapshot, selection, fits))
            return
        blocked = list(
            pools_of_blocked_classes(snapshot, self._catalogue.now, selection, fits)
        )
        yield from blocked
        found = bool(paused or blocked)
        for asked in self._asked(group):
            for entry in self._catalogue.entries:
                for failure in self._of_entry(entry, group, asked):
                    found = True
                    yield failure
        if not found:
            yield Failure(
                ReasonCode.INCOMPATIBLE, "no pool offers any instance type", misses=1
            )

    def _no_usable_pool(self, pools: Sequence[NodePool]) -> Failure:
        classes = {item.name: item for item in self._catalogue.snapshot.node_classes}
        problems, looks = [], []
        for pool in sorted(pools, key=lambda item: item.name):
            node_class = classes.get(pool.node_class_name)
            if pool.replicas is not None:
                problems.append(f"{pool.name} is static")
            elif pool.paused is not None:
                problems.append(f"{pool.name} is paused {pool.paused}")
            else:
                problems.append(f"{pool.name}: {blocked_class(pool, node_class)}")
                looks.append(looked_at(node_class, self._catalogue.now))
        is_paused = any(pool.paused is not None for pool in pools)
        code = ReasonCode.INCOMPATIBLE if is_paused else ReasonCode.NODE_CLASS_NOT_READY
        next_look = min((look for look in looks if look is not None), default=None)
        return Failure(
            code, "; ".join(problems), at=next_look, misses=1 if is_paused else 0
        )

    def _asked(self, group: Group) -> tuple[Asked, ...]:
        """Return what the group asks by each of its terms: the nearest failure of all names the reason."""
        ladder = frozenset(step.capacity_type for step in group.workload.fallback)
        budget = self._state.price_caps.left(group) if group.is_price_capped else None
        nodes = 1 if group.workload.gang is None else group.count
        team_budget = (
            None
            if group.team_budget is None
            else self._state.price_caps.team_budget_left(group)
        )
        selection = group.levels[-1].selection
        without_choice = self._without_choice(group, budget)
        each = (replace(selection, terms=(term,)) for term in selection.terms)
        return tuple(
            Asked(one, ladder, budget, nodes, team_budget, group.withheld, without_choice)
            for one in each
        )

    # Branches: what an option must be before it is asked whether it holds.
    def _without_choice(self, group: Group, budget: int | None) -> frozenset[int]:
        """Return the entries that still sell a replica something, but nothing with as many values as minValues asks."""
        concerned = {
            entry.index
            for entry in self._catalogue.entries
            if self._substitutes.concerns(entry)
        }
        selling, holding, level = set[int](), set[int](), len(group.levels) - 1
        for option in self._catalogue.options if concerned else ():
            index = option.entry.index
            if (
                index not in concerned - holding
                or not option.requirement_sets & group.requirement_sets[level]
            ):
                continue
            can_pay = budget is None or option.price <= budget
            if (
                can_pay
                and self._state.residual.nodes_left(option)
                and copies_that_fit(group.request, option.allocatable)
            ):
                selling.add(index)
                if self._substitutes.holds(
                    self._state, option, group.request, {group.index: level}
                ):
                    holding.add(index)
        return frozenset(selling - holding)

    def _of_entry(self, entry: Entry, group: Group, asked: Asked) -> Iterator[Failure]:
        """Yield why a pool cannot serve; for one with taints only the nearest failure, the taints included."""
        binding = entry.taints
        taints = tuple(untolerated(binding, asked.selection.tolerations))
        if not taints:
            yield from self._of_tolerated(entry, group, asked)
            return
        name, shown = entry.pool.name, " and ".join(map(str, taints))
        verb = (
            f"has the taint {shown}, which is"
            if len(taints) == 1
            else f"has the taints {shown}, which are"
        )
        behind = min(
            self._of_tolerated(entry, group, asked), key=_mismatch_order, default=None
        )
        if behind is None or not behind.is_mismatch:
            message = f"pool {name} would fit, but {verb} not tolerated"
            yield Failure(ReasonCode.INCOMPATIBLE, message, misses=len(taints))
            return
        message = f"pool {name} {verb} not tolerated; besides, {behind.message}"
        yield replace(
            behind,
            code=ReasonCode.INCOMPATIBLE,
            message=message,
            misses=behind.misses + len(taints),
        )

    # Branches: what always fails, then what fails by size; each yields its own failure.
    def _of_tolerated(self, entry: Entry, group: Group, asked: Asked) -> Iterator[Failure]:
        """Yield why a pool cannot serve, apart from its taints."""
        wrong = self._of_wrong_pool(entry, asked)
        if wrong is not None:
            yield replace(wrong, distance=self._distance(entry, group, asked))
            return
        if (entry.index, asked) not in self._of_types:
            self._of_types[entry.index, asked] = self._type_failures(entry, asked)
        found = self._of_types[entry.index, asked]
        if found.always is not None:
            yield found.always
        worst = next(
            (
                failure
                for instance_type, failure in found.sized
                if self._fits(group, instance_type)
            ),
            None,
        )
        if worst is not None:
            yield replace(
                worst,
                at=next(
                    (
                        when
                        for when, instance_type in found.timed
                        if self._fits(group, instance_type)
                    ),
                    None,
                ),
            )
        to_come = next(
            (
                failure
                for instance_type, failure in found.upcoming
                if self._fits(group, instance_type)
            ),
            None,
        )
        if to_come is not None:
            yield to_come
        if worst is None or worst.is_mismatch:
            small = [each for each in found.types if not self._fits(group, each)]
            if small:
                yield too_large(entry.pool.name, small, group.workload)

    def _of_wrong_pool(self, entry: Entry, asked: Asked) -> Failure | None:
        """Return why no type of the pool could ever serve, whatever its size."""
        name = entry.pool.name
        if not entry.types:
            return Failure(
                ReasonCode.INCOMPATIBLE, no_type(self._catalogue.snapshot, entry), misses=1
            )
        # What the entry settled beyond the pool (labels that the pool leaves open) counts as the pool's own.
        problems = unmet_requirements(entry.pool.requirements, asked.term)
        if problems:
            return Failure(
                ReasonCode.INCOMPATIBLE,
                f"pool {name}: {'; '.join(problems)}",
                misses=len(problems),
            )
        return self._mismatches.of_offerings(entry, asked.term)

    def _distance(self, entry: Entry, group: Group, asked: Asked) -> tuple[int, int]:
        """Return how far the pool is from the other requirements: missing resources of its types, less its own labels.

        Several pools may lack the one thing that none has (a zone with a typing error): the pool that was made for such
        work is named, and not the first by name. So is the one that is asked for by its label, though it sells nothing,
        before one that only has another value of that label.
        """
        own = entry.pool.requirements
        given = [
            key
            for key, wanted in asked.term.items()
            if key in own and own[key].has_intersection(wanted)
        ]
        if any(self._fits(group, instance_type) for instance_type in entry.types):
            return (0, -len(given))
        lacking = (
            len(group.workload.requests.missing(each.allocatable)) for each in entry.types
        )
        return (min(lacking, default=0), -len(given))

    def _fits(self, group: Group, instance_type: InstanceType) -> bool:
        return (
            copies_that_fit(
                group.request,
                self._state.catalogue.dimensions.capacity(instance_type.allocatable),
            )
            > 0
        )

    # Branches: comprehensions of a line each after one loop over types.
    def _type_failures(self, entry: Entry, asked: Asked) -> _TypeFailures:
        incompatible: list[Failure] = []
        by_size: list[tuple[InstanceType, list[Failure]]] = []
        reserved = {
            it.instance_type
            for it in selected_reservations(self._catalogue.snapshot, entry.node_class)
        }
        for instance_type in entry.types:
            if not self._mismatches.sells(entry, instance_type, reserved):
                continue
            problems = self._misses(entry, instance_type, asked)
            if problems:
                message = (
                    f"{instance_type.name} of pool {entry.pool.name}: {'; '.join(problems)}"
                )
                incompatible.append(
                    Failure(ReasonCode.INCOMPATIBLE, message, misses=len(problems))
                )
            else:
                by_size.append(
                    (instance_type, list(self._places.of_type(entry, instance_type, asked)))
                )
        sized: list[tuple[InstanceType, Failure]] = []
        timed: list[tuple[datetime, InstanceType]] = []
        upcoming: list[tuple[InstanceType, Failure]] = []
        for instance_type, failures in by_size:
            if failures:
                sized.append((instance_type, min(failures, key=_order)))
            for failure in failures:
                if failure.at is not None:
                    timed.append((failure.at, instance_type))
                if failure.code is ReasonCode.RESERVATION_NOT_STARTED:
                    upcoming.append((instance_type, failure))
        return _TypeFailures(
            always=min(incompatible, key=_order, default=None),
            sized=sorted(sized, key=lambda pair: _order(pair[1])),
            timed=sorted(timed, key=itemgetter(0)),
            upcoming=sorted(upcoming, key=lambda pair: _soonest(pair[1])),
            types=[each for each, _ in by_size],
        )


def _mismatch_order(failure: Failure) -> tuple[object, ...]:
    """Sort what lies behind a taint: whatever would serve, now or later, first."""
    return (failure.is_mismatch, failure.misses, *failure.order)


def _soonest(failure: Failure) -> tuple[object, ...]:
    """Sort reservations to come: one that is late may begin any moment."""
    return (failure.at is not None, failure.at, *failure.order)


def _with_what_is_to_come(worst: Failure, failures: Sequence[Failure]) -> Failure:
    """Name the first reservation to come beside what keeps the work from being bought until then."""
    to_come = [each for each in failures if each.code is ReasonCode.RESERVATION_NOT_STARTED]
    if not to_come or worst.code is ReasonCode.RESERVATION_NOT_STARTED:
        return worst
    return replace(worst, message=f"{worst.message}; {min(to_come, key=_soonest).message}")


def _meant(
    snapshot: Snapshot, selection: Selection, fits: Callable[[InstanceType], bool]
) -> Sequence[NodePool]:
    """Return the pools that would serve if they could launch; all where none would."""
    found = [
        pool for pool in snapshot.node_pools if would_serve(pool, snapshot, selection, fits)
    ]
    return found or snapshot.node_pools
