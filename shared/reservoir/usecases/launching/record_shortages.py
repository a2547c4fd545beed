"""The consequences of a launch outcome for others: shortages, exhausted reservations, blocked classes, and events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.shortage import (
    UNSUPPORTED_REST,
    Shortage,
    after_failure,
    after_tolerated_failure,
    needs_probe,
)
from reservoir.core.capacity.unavailable_offerings import (
    ClassMarketKey,
    Market,
    Remembered,
    Rested,
    Unavailable,
    class_rests,
)
from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchReaction,
    launched_offering,
)
from reservoir.core.launching.launch_request import LaunchRequest
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.manifests.events import LaunchesBlocked, ReservationExhausted
from reservoir.ports.ec2 import LaunchTemplateStore
from reservoir.ports.launches import LaunchPolicy, ShortageHistory
from reservoir.ports.messaging import EventPublisher, OutboundEvent
from reservoir.ports.state import OfferingStore, ReservationStore
from reservoir.usecases.claims.announce import launch_failed, node_launched

# While Spot's service-linked role is missing every spot launch fails: all spot rests, on-demand goes on.
_SPOT_REST: Final = timedelta(minutes=15)
# A quota is freed when any instance under it ends, and raised by a request that takes hours.
_QUOTA_REST: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class RecordShortages:
    """Remembers and announces."""

    reservations: ReservationStore
    offerings: OfferingStore
    shortages: ShortageHistory
    policy: LaunchPolicy
    templates: LaunchTemplateStore
    publisher: EventPublisher

    def remember(self, attempt: LaunchAttempt, reaction: LaunchReaction) -> datetime | None:
        """Remember shortages, exhausted reservations and blocked classes; return until when the offering rests.

        Raises UnreadableRowsError for a class to be blocked.
        """
        at = attempt.settled_at
        full = () if reaction.resting_reservation_id is None else attempt.request.offerings
        rests = self._after_failure(
            (*reaction.resting, *full, *reaction.full_subnets, *reaction.refused), at
        )
        self._forget_ended(attempt, reaction)
        rests |= {
            offering: Shortage(at + UNSUPPORTED_REST) for offering in reaction.unsupported
        }
        if rests:
            self.shortages.put(dict[Remembered, Shortage](rests.items()))
        # A reservation that EC2 refused counts as exhausted until its next observation, and mostly that is enough.
        resting = {key: rest for key, rest in rests.items() if not rest.tolerated}
        refused: dict[Rested, Shortage] = {
            key: resting.pop(key) for key in reaction.refused if key in resting
        }
        reserved = {key: resting.pop(key) for key in full if key in resting}
        ends = [
            *self._mark(resting),
            *self._mark(
                refused, f"EC2 refuses what its class asks for ({reaction.reason})"
            ),
        ]
        ends += self._mark(
            dict[Rested, Shortage](reserved.items()), f"EC2 refuses it ({reaction.reason})"
        )
        markets = _resting_markets(reaction, at)
        for market, rest in markets.items():
            self.offerings.mark_unavailable([market], until=rest.until, reason=rest.reason)
        if reaction.resting_reservation_id is not None:
            refusal = (
                ""
                if reaction.refused_reservation_id is None
                else f"EC2 refuses it ({reaction.reason})"
            )
            self.reservations.mark_exhausted(
                reaction.resting_reservation_id, refused_at=at, refusal=refusal
            )
        if reaction.refused_market is not None:
            ends += self._rest_market(attempt.request, reaction.refused_market, at)
        if reaction.blocked_reason is not None:
            node_class_name = attempt.request.node_class_name
            self.policy.block_launches(node_class_name, reaction.blocked_reason)
        self.templates.forget(
            [] if not reaction.retry else [c.template.name for c in attempt.request.configs]
        )
        return max([*ends, *(rest.until for rest in markets.values())], default=None)

    def _rest_market(
        self, request: LaunchRequest, reason: str, at: datetime
    ) -> list[datetime]:
        """Let the class rest on the market of a request, longer each time; return until when."""
        key = ClassMarketKey(
            request.node_class_name, request.node_class_hash, request.capacity_type
        )
        rests = self._after_failure([key], at)
        self.shortages.put(dict[Remembered, Shortage](rests.items()))
        return self._mark(rests, reason)

    def rest(self, pools: Sequence[OfferingKey], at: datetime, reason: str) -> datetime:
        """Let offerings that could not be launched rest, longer each time that this repeats; return until when.

        ``reason`` is for users, who would take it for insufficient capacity otherwise.
        """
        rests = self._after_failure(pools, at)
        self.shortages.put(dict[Remembered, Shortage](rests.items()))
        return max(self._mark(rests, reason))

    def _after_failure(
        self, failed: Sequence[Rested], at: datetime
    ) -> dict[Rested, Shortage]:
        known = self.shortages.get_many(failed) if failed else {}
        return {
            key: (after_tolerated_failure if _is_reserved(key) else after_failure)(
                known.get(key), at
            )
            for key in failed
        }

    def _mark(self, rests: Mapping[Rested, Shortage], reason: str = "") -> list[datetime]:
        """Let offerings, reservations and subnets rest; return when the rests end."""
        by_until: dict[datetime, list[Rested]] = {}
        for offering, shortage in rests.items():
            by_until.setdefault(shortage.until, []).append(offering)
        for until in sorted(by_until):
            self.offerings.mark_unavailable(by_until[until], until=until, reason=reason)
        return list(by_until)

    def _forget_ended(self, attempt: LaunchAttempt, reaction: LaunchReaction) -> None:
        """Forget shortages of offerings that gave all that was asked of them again."""
        gave = {
            launched_offering(attempt.request, instance)
            for instance in attempt.result.instances
        }
        gave = {
            offering for offering in gave if offering.reservation_id is None
        }.difference(reaction.resting, reaction.refused)
        known = self.shortages.get_many(gave) if gave else {}
        over = [
            offering
            for offering, shortage in known.items()
            if needs_probe(shortage, attempt.settled_at)
        ]
        if over:
            self.shortages.forget(over)

    def announce(
        self,
        attempt: LaunchAttempt,
        reaction: LaunchReaction,
        launched: Sequence[NodeClaim],
        failing: Sequence[NodeClaim],
        until: datetime | None,
    ) -> None:
        """Publish what was launched, what failed and what that means for others.

        Raises UnreadableRowsError for the reservation.
        """
        events: list[OutboundEvent] = [
            node_launched(claim, attempt.settled_at) for claim in launched
        ]
        if failing:
            events.append(
                launch_failed(
                    failing, reaction.reason, f"EC2 refused: {reaction.reason}", until
                )
            )
        if reaction.blocked_reason is not None:
            events.append(
                LaunchesBlocked(
                    node_class=attempt.request.node_class_name,
                    reason=reaction.blocked_reason,
                    message="no launch can succeed until the class or the permissions change",
                )
            )
        if reaction.refused_market is not None and until is not None:
            market = attempt.request.capacity_type
            message = f"{market} launches: {class_rests(Unavailable(until, reaction.refused_market))}"
            name = attempt.request.node_class_name
            events.append(
                LaunchesBlocked(
                    node_class=name, reason=reaction.refused_market, message=message
                )
            )
        if reaction.exhausted_reservation_id is not None:
            record = self.reservations.get(reaction.exhausted_reservation_id)
            if record is not None:
                events.append(
                    ReservationExhausted(
                        capacity_reservation_id=record.reservation.id,
                        instance_type=record.reservation.instance_type,
                        zone=record.reservation.zone,
                        zone_id=record.reservation.zone_id,
                        total_count=record.reservation.total_count,
                    )
                )
        if events:
            self.publisher.publish(events)


def _is_reserved(key: Rested) -> bool:
    return isinstance(key, OfferingKey) and key.reservation_id is not None


def _resting_markets(
    reaction: LaunchReaction, at: datetime
) -> Mapping[Market, Unavailable]:
    """Return the markets that rest as a whole, and the reason for users."""
    rests = {
        market: Unavailable(
            at + _QUOTA_REST, f"the account's quota of {_words(market)} is used up ({code})"
        )
        for market, code in reaction.resting_markets.items()
    }
    if reaction.spot_not_permitted:
        reason = "the service-linked role of EC2 Spot does not exist and may not be created"
        rests[Market(CapacityType.SPOT)] = Unavailable(at + _SPOT_REST, reason)
    return rests


def _words(market: Market) -> str:
    return f"{market.capacity_type} {market.quota_group} instances"
