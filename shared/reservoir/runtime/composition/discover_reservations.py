"""The discover_reservations function."""

from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.discovery.discover_on_event import DiscoverOnEvent
from reservoir.usecases.discovery.discover_reservations import DiscoverReservations
from reservoir.usecases.discovery.observe_reservation import ReservationObserver
from reservoir.usecases.discovery.publish_readiness import PublishReadiness
from reservoir.usecases.policy.resolve_node_classes import NodeClassResolver


@once
def discover_reservations() -> DiscoverReservations:
    """Return the discovery of reservations."""
    return discover_reservations_from(process_outside())


def discover_reservations_from(outside: Outside) -> DiscoverReservations:
    """Wire the discovery of reservations."""
    return DiscoverReservations(
        reader=outside.reservation_reader,
        network=outside.network,
        resolver=NodeClassResolver(
            outside.launch_environment, outside.policy, outside.offerings, outside.publisher
        ),
        policy=outside.policy,
        reservations=outside.reservations,
        observer=ReservationObserver(
            outside.reservations, outside.node_claims, outside.publisher
        ),
        node_claims=outside.node_claims,
        timers=outside.timers,
        queue=outside.queue,
        publisher=outside.publisher,
        clock=outside.clock,
        readiness=PublishReadiness(
            outside.policy, outside.offerings, outside.reservations, outside.publisher
        ),
        history=outside.history,
        account_id=outside.settings.account_id,
    )


@once
def discover_on_event() -> DiscoverOnEvent:
    """Return the discovery of reservations that events wake."""
    outside = process_outside()
    return DiscoverOnEvent(
        discover_reservations(), outside.discovery_turns, outside.clock, pause=outside.pause
    )
