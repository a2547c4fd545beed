"""Control actions that change the weather: latencies, limits, refusals, lost answers, mistreated events, prices."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_args

from lab.embedded.ec2.account.faults import CallFault, Faults, LaunchFault
from lab.embedded.ec2.account.outbox import EventFault, FaultKind
from lab.embedded.ec2.account.pools import PoolLimits
from lab.embedded.ec2.account.state import Settings
from lab.embedded.ec2.account.throttling import BucketSize, What
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import invalid_value
from lab.embedded.ec2.control.support import Action, market_of, zone_of


def configure(world: World, **settings: Any) -> dict[str, Any]:
    """Change settings (see ``state.Settings``); returns them all.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    known = {field.name for field in fields(Settings)}
    unknown = settings.keys() - known
    if unknown:
        raise invalid_value(f"unknown settings {sorted(unknown)}; known: {sorted(known)}")
    for name, value in settings.items():
        setattr(world.settings, name, value)
    return {name: getattr(world.settings, name) for name in sorted(known)}


def set_pool_capacity(
    world: World,
    *,
    instance_type: str,
    zone: str,
    market: str = "on-demand",
    capacity: int | None,
) -> dict[str, Any]:
    """Limit how many instances a pool holds in all, those that run included; None removes the limit.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, for a zone or a market that is not known.
    """
    key = (instance_type, zone_of(world, zone).name, market_of(market))
    if capacity is None:
        world.pools.sizes.pop(key, None)
    else:
        world.pools.sizes[key] = capacity
    return {}


def set_spot_price(
    world: World, *, instance_type: str, zone: str, micro_usd_per_hour: int
) -> dict[str, Any]:
    """Replace the Spot price that the formula gives.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, for a zone that is not known.
    """
    world.spot_prices[(instance_type, zone_of(world, zone).name)] = micro_usd_per_hour
    return {}


def fail_calls(
    world: World,
    *,
    operation: str,
    code: str = "RequestLimitExceeded",
    message: str = "Request limit exceeded.",
    count: int = 1,
    status: int = 503,
    dry_run: bool | None = None,
) -> dict[str, Any]:
    """Refuse the next calls of an operation before they have any effect; a throttle unless told otherwise.

    ``dry_run``: only dry runs, or only calls that are none; None: all.
    """
    world.faults.calls.append(CallFault(operation, code, message, count, status, dry_run))
    return {}


def limit_calls(
    world: World,
    *,
    operation: str,
    at_once: float,
    per_s: float,
    what: What = "calls",
) -> dict[str, Any]:
    """Give an action other buckets: larger ones, which AWS grants, or those that others in the account leave us.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, for tokens of something else.
    """
    if what not in get_args(What):
        raise invalid_value(f"unknown tokens {what!r}; known: {sorted(get_args(What))}")
    world.throttle.resize(what, operation, BucketSize(at_once, per_s))
    return {}


def lose_response(
    world: World, *, operation: str, count: int = 1, repeat_code: str | None = None
) -> dict[str, Any]:
    """Let the next calls of an operation take effect and lose their answers.

    With ``repeat_code``, the call after each of them is refused by that code.
    """
    faults = world.faults
    faults.lost_responses[operation] = faults.lost_responses.get(operation, 0) + count
    faults.refused_repeats.pop(operation, None)
    if repeat_code is not None:
        faults.refused_repeats[operation] = repeat_code
    return {}


def refuse_launches(
    world: World,
    *,
    code: str = "InsufficientInstanceCapacity",
    message: str = "Refused by a test.",
    **launches: Any,
) -> dict[str, Any]:
    """Refuse the ``launches`` that match (see ``_launch_fault``), with any error code.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, for a zone that is not known.
    """
    world.faults.launches.append(_launch_fault(world, code, message, **launches))
    return {}


def fail_starts(
    world: World,
    *,
    code: str = "Client.InternalError",
    message: str = "Client error on launch",
    **launches: Any,
) -> dict[str, Any]:
    """Let instances of the ``launches`` that match end with a state reason when they would begin to run.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, for a zone that is not known.
    """
    world.faults.starts.append(_launch_fault(world, code, message, **launches))
    return {}


def mistreat_events(
    world: World,
    *,
    kind: FaultKind,
    detail_type: str = "",
    count: int = 1,
    delay_s: float = 0.0,
) -> dict[str, Any]:
    """Delay, duplicate or drop the next events whose detail-type starts with ``detail_type``.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if kind not in {"delay", "duplicate", "drop"}:
        raise invalid_value(f"unknown kind of event fault {kind!r}")
    world.outbox.faults.append(EventFault(kind, detail_type, count, delay_s))
    return {}


def clear_faults(world: World) -> dict[str, Any]:
    """Forget every fault, pool limit, bucket and set price, and go back to the default settings."""
    world.faults = Faults()
    world.pools = PoolLimits()
    world.settings = Settings()
    world.throttle.restore_sizes()
    world.spot_prices.clear()
    world.outbox.faults.clear()
    return {}


def emit(world: World, *, event: dict[str, Any]) -> dict[str, Any]:
    """Send any event, however malformed."""
    world.announce(event)
    return {}


def _launch_fault(
    world: World,
    code: str,
    message: str,
    *,
    instance_type: str | None = None,
    zone: str | None = None,
    market: str | None = None,
    count: int | None = None,
    capacity_reservation_id: str | None = None,
) -> LaunchFault:
    """Return what fails launches that match, for good when no count is given; ``zone`` is a name or an id.

    A reservation matches launches that target it by its id.
    """
    return LaunchFault(
        code,
        message,
        instance_type,
        zone_of(world, zone).name if zone else None,
        market,
        count,
        capacity_reservation_id,
    )


ACTIONS: Final[Mapping[str, Action]] = {
    "configure": configure,
    "set_pool_capacity": set_pool_capacity,
    "set_spot_price": set_spot_price,
    "fail_calls": fail_calls,
    "limit_calls": limit_calls,
    "lose_response": lose_response,
    "refuse_launches": refuse_launches,
    "fail_starts": fail_starts,
    "mistreat_events": mistreat_events,
    "clear_faults": clear_faults,
    "emit": emit,
}
