"""Why one place where a pool sells a type cannot serve: requirements, time, units, limits, money and shares."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from reservoir.core.capacity.offerings import selected_reservations
from reservoir.core.explaining.gang_reasons import whose_budget
from reservoir.core.explaining.offering_failures import (
    LAST,
    Failure,
    at,
    no_room_in_quota,
    no_unit,
    words,
)
from reservoir.core.explaining.pool_reasons import OFFERING_KEYS
from reservoir.core.explaining.room import amount_left
from reservoir.core.model.capacity_reservation import ACTIVE, CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import OfferingKey, ReasonCode
from reservoir.core.model.policy import NoDurationPolicy
from reservoir.core.model.workload import Withheld
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, usd
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import counted
from reservoir.core.solver.problem.catalogue import Entry, OfferedPlace, accepts
from reservoir.core.solver.problem.selection import Selection
from reservoir.core.solver.solution.partial_plan import PartialPlan


@dataclass(frozen=True, slots=True)
class Asked:
    """What a group asks of an offering, its size apart, by one of its ORed terms.

    ``budget`` is what maxPricePerHour leaves, in atto-USD; ``nodes`` is how many it may need at once;
    ``without_choice`` are the entries whose minValues one replica alone would break.
    """

    selection: Selection
    ladder: frozenset[CapacityType]
    budget: int | None
    nodes: int
    team_budget: int | None = None  # what the team's budget leaves, in atto-USD
    withheld: tuple[Withheld, ...] = ()
    without_choice: frozenset[int] = frozenset()

    @property
    def term(self) -> Requirements:
        """The term that failures are described by: one and the same, because another one may fail elsewhere."""
        (term,) = self.selection.terms
        return term


class PlaceReasons:
    """Asks of a place what a workload asks, one question after the other; what each leaves is the state's."""

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._catalogue = state.catalogue

    # Branches: two lists of places, each place with its own failure.
    def of_type(
        self, entry: Entry, instance_type: InstanceType, asked: Asked
    ) -> Iterator[Failure]:
        """Yield why each place of a type cannot serve, for replicas that fit it."""
        reservations = selected_reservations(self._catalogue.snapshot, entry.node_class)
        for reservation in reservations:
            is_its_own = (
                reservation.share is None
                or reservation.share.team_name == asked.selection.team_name
            )
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
                if why:
                    message = f"{words(failure.key)} rests: {why}"
                else:
                    message = f"{words(failure.key)} had insufficient capacity"
                yield Failure(
                    ReasonCode.OFFERING_UNAVAILABLE,
                    message,
                    failure.key,
                    price,
                    offering.unavailable_until,
                )
            else:
                yield failure

    def _of_place(
        self,
        entry: Entry,
        place: OfferedPlace,
        instance_type: InstanceType,
        asked: Asked,
        price: int,
    ) -> Failure | None:
        """Return why a paid or reserved place does not serve; TOPOLOGY when nothing but its neighbours is left."""
        key = place.key(instance_type)
        wanted = [
            item for name, item in entry.pool.requirements.items() if name in OFFERING_KEYS
        ]
        if not accepts(place.labels(), wanted):
            return None  # the pool does not offer this at all
        return (
            self._of_wrong_place(entry, place, key, asked, price)
            or self._limited(entry, instance_type, key, price)
            or self._of_rules(entry, place, key, asked, price)
            or Failure(
                ReasonCode.TOPOLOGY,
                f"{words(key)}: spread, affinity or anti-affinity forbids it",
                key,
                price,
            )
        )

    # Branches: one question after the other, each with its own answer.
    def _of_wrong_place(
        self, entry: Entry, place: OfferedPlace, key: OfferingKey, asked: Asked, price: int
    ) -> Failure | None:
        """Return why the place is not one for this work now, whatever is free there."""
        status = entry.node_class.status
        name = entry.node_class.name
        labels = place.labels()
        if status.subnets and all(
            subnet.zone_id != place.zone_id for subnet in status.subnets
        ):
            message = f"class {name} has no subnet in {place.zone}"
            return Failure(ReasonCode.INCOMPATIBLE, message, key, misses=1)
        wanted = [item for name, item in asked.term.items() if name in OFFERING_KEYS]
        unmet = [str(item) for item in wanted if not accepts(labels, (item,))]
        if unmet:
            message = f"{words(key)} is not what the workload selects ({', '.join(unmet)})"
            return Failure(ReasonCode.INCOMPATIBLE, message, key, price, misses=len(unmet))
        withheld = no_room_in_quota(asked.withheld, key, price)
        if withheld is not None:
            return withheld
        if place.capacity_type not in asked.selection.capacity_types:
            message = f"{words(key)} would fit, but the fallback ladder has not reached {place.capacity_type}"
            is_later = place.capacity_type in asked.ladder
            code = ReasonCode.FALLBACK_NOT_YET if is_later else ReasonCode.INCOMPATIBLE
            return Failure(code, message, key, price, misses=1)
        full_until = status.zones_full_until.get(place.zone_id)
        if full_until is not None:
            message = f"no subnet of class {name} in {place.zone} has a free address"
            return Failure(ReasonCode.OFFERING_UNAVAILABLE, message, key, price, full_until)
        rest = status.resting_markets.get(place.capacity_type)
        if rest is not None:
            message = f"{words(key)} rests with all {place.capacity_type} launches of class {name}: {rest.reason}"
            return Failure(ReasonCode.OFFERING_UNAVAILABLE, message, key, price, rest.until)
        return None

    def _of_rules(
        self, entry: Entry, place: OfferedPlace, key: OfferingKey, asked: Asked, price: int
    ) -> Failure | None:
        """Return which rule about money, variety or shares forbids the place."""
        is_bought = place.reservation is None
        if (
            is_bought
            and asked.team_budget is not None
            and price * ATTO_USD_PER_MICRO_USD > asked.team_budget
        ):
            left = usd(max(0, asked.team_budget) // ATTO_USD_PER_MICRO_USD)
            message = f"{words(key)} costs {usd(price)} an hour, and {whose_budget(self._state)} {left}"
            return Failure(ReasonCode.TEAM_BUDGET, message, key, price)
        if (
            is_bought
            and asked.budget is not None
            and price * ATTO_USD_PER_MICRO_USD > asked.budget
        ):
            left = usd(max(0, asked.budget) // ATTO_USD_PER_MICRO_USD)
            message = f"{words(key)} costs {usd(price)} an hour, and maxPricePerHour leaves {left}"
            return Failure(ReasonCode.MAX_PRICE, message, key, price)
        if entry.index in asked.without_choice:
            return Failure(
                ReasonCode.MIN_VALUES,
                f"pool {entry.pool.name}: minValues cannot be met",
                key,
                price,
            )
        if self._state.residual.spot_left(key) < asked.nodes:
            share = self._catalogue.policy.spot_pool_share_percent
            message = f"more of {words(key)} would be over its share, {share} % of the plan's spot nodes"
            return Failure(ReasonCode.SPOT_SHARE, message, key, price)
        return None

    def _limited(
        self, entry: Entry, instance_type: InstanceType, key: OfferingKey, price: int
    ) -> Failure | None:
        for name, left in self._state.residual.limits.get(entry.pool.name, {}).items():
            needed = counted(instance_type.capacity, name)
            if needed > left:
                shown = amount_left(name, left)
                message = f"{words(key)} would exceed the {name} limit of pool {entry.pool.name} ({shown})"
                return Failure(ReasonCode.LIMIT_EXCEEDED, message, key, price)
        return None

    # Branches: one question after the other, each with its own answer.
    def _of_reservation(
        self,
        entry: Entry,
        reservation: CapacityReservation,
        instance_type: InstanceType,
        asked: Asked,
    ) -> Failure | None:
        selection = asked.selection
        failure = self._of_place(
            entry, OfferedPlace.of(reservation), instance_type, asked, 0
        )
        if failure is None or failure.code is not ReasonCode.TOPOLOGY:
            return failure
        key, now = failure.key, self._catalogue.now
        if reservation.is_upcoming(now):
            assert reservation.start_at is not None
            begins_at = max(now, reservation.start_at)
            if self._takes_nothing(reservation, begins_at):
                message = (
                    f"{words(key)} ends{at(reservation.end_at)} and takes no new work:"
                    " it begins too close to its end"
                )
                return Failure(ReasonCode.DURATION_DOES_NOT_FIT, message, key)
            if not self._fits_from(reservation, selection, begins_at):
                return self._does_not_fit(reservation, selection, key)
            is_late = reservation.start_at <= now
            verb = "has not begun yet and was to start" if is_late else "starts"
            message = f"{words(key)} {verb} at {reservation.start_at.isoformat()}"
            # one that is late may begin any moment
            earliest_at = None if is_late else reservation.start_at
            return Failure(ReasonCode.RESERVATION_NOT_STARTED, message, key, 0, earliest_at)
        if reservation.state != ACTIVE:
            return Failure(
                ReasonCode.INCOMPATIBLE,
                f"{words(key)} is {reservation.state}",
                key,
                misses=1,
            )
        if not reservation.is_active(now):
            message = f"{words(key)} ends{at(reservation.end_at)} and takes no new work: its nodes drain"
            return Failure(ReasonCode.DURATION_DOES_NOT_FIT, message, key)
        if not self._catalogue.is_in_time(
            reservation.block_drain(), selection, selection.notice_s
        ):
            return self._does_not_fit(reservation, selection, key)
        if self._state.residual.units.get(reservation.unit_key, 0) <= 0:
            return no_unit(reservation, key)
        return failure

    @staticmethod
    def _takes_nothing(reservation: CapacityReservation, begins_at: datetime) -> bool:
        """Whether its nodes would drain as soon as it begins."""
        drain_at = reservation.drain_at()
        return drain_at is not None and drain_at <= begins_at

    def _fits_from(
        self, reservation: CapacityReservation, selection: Selection, start_at: datetime
    ) -> bool:
        drain = reservation.block_drain()
        if drain is None:
            return True
        drains_at = drain.for_notice(selection.notice_s).starts_at
        if selection.duration_s is None:
            return not self._avoids_ends and start_at < drains_at
        return start_at + timedelta(seconds=selection.duration_s) <= drains_at

    @property
    def _avoids_ends(self) -> bool:
        return self._catalogue.policy.no_duration_policy is NoDurationPolicy.AVOID

    def _does_not_fit(
        self,
        reservation: CapacityReservation,
        selection: Selection,
        key: OfferingKey | None,
    ) -> Failure:
        if selection.duration_s is None and not self._avoids_ends:
            message = (
                f"the work needs {selection.notice_s} s of notice, "
                f"which {words(key)} cannot give any more, because it drains"
            )
            return Failure(
                ReasonCode.DURATION_DOES_NOT_FIT, message + at(reservation.drain_at()), key
            )
        if selection.duration_s is None:
            message = f"it has no duration, and noDurationPolicy Avoid keeps such work out of {words(key)}, which ends"
            return Failure(
                ReasonCode.DURATION_DOES_NOT_FIT, message + at(reservation.end_at), key
            )
        drain = reservation.block_drain()
        drains_at = (
            None if drain is None else drain.for_notice(selection.notice_s).starts_at
        )
        message = f"the work would not finish before {words(key)} drains{at(drains_at)}"
        return Failure(ReasonCode.DURATION_DOES_NOT_FIT, message, key)
