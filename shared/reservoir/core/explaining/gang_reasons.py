"""What keeps a gang waiting whose replicas would each have a place alone: units, limits or money for all at once."""

from collections.abc import Iterator, Sequence

from reservoir.core.explaining.room import Room, amount_left, held_by, rooms_of
from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, usd
from reservoir.core.scheduling_terms.resources import counted
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity


def too_few_units(state: PartialPlan, group: Group) -> str | None:
    """Say what units hold, limits and money apart, in all and where all must be in one domain; None: enough."""
    rooms, units = rooms_of(state, group), ResidualCapacity(state.residual.units, {})
    if not rooms:
        return None
    if held_by(rooms, units, group.count) < group.count:
        return _held_by_units(state, rooms)
    for key in _keys_of_one_domain(group):
        held = {
            domain: held_by(them, units, group.count)
            for domain, them in _by_domain(rooms, key).items()
        }
        if max(held.values(), default=0) < group.count:
            return _no_domain(key, held)
    return None


def limits_or_money(state: PartialPlan, group: Group) -> str | None:
    """Say what limits, then money, leave room for, in the domain that is best for all; None: for all of them."""
    rooms, keys = rooms_of(state, group), _keys_of_one_domain(group)
    if not rooms:
        return None
    parts = list(_by_domain(rooms, keys[0]).values()) if keys else [rooms]
    if max(held_by(part, state.residual, group.count) for part in parts) < group.count:
        return ", and ".join(_limits(state, rooms, group.count)) or None
    return _too_dear(
        state, group, *min((_cost(state, part, group) for part in parts), key=sum)
    )


def _keys_of_one_domain(group: Group) -> list[str]:
    """Return the labels of which all replicas must have one value: the gang's own, and those of affinity."""
    near = (it.topology_key for it in group.constraints[-1].affinity if it.matches_self)
    return [
        key
        for key in dict.fromkeys((group.workload.single_topology_key, *near))
        if key is not None and key != HOSTNAME
    ]


def _by_domain(rooms: Sequence[Room], key: str) -> dict[str, list[Room]]:
    by_domain: dict[str, list[Room]] = {}
    for room in rooms:
        if key in room.labels:
            by_domain.setdefault(room.labels[key], []).append(room)
    return dict(sorted(by_domain.items()))


def _held_by_units(state: PartialPlan, rooms: Sequence[Room]) -> str:
    """Say how many replicas the free reserved units hold; bought nodes are not limited by units."""
    free: dict[str, int] = {}
    for room in rooms:
        if room.option is not None and room.option.reservation is not None:
            held = room.per_node * max(0, state.residual.units.get(room.option.unit_key, 0))
            name = room.option.reservation.id
            free[name] = max(held, free.get(name, 0))
    on_nodes = sum(room.per_node for room in rooms if room.option is None)
    told = [f"{count} in {name}" for name, count in sorted(free.items())]
    if not on_nodes:
        return (
            f"the free reserved units hold {sum(free.values())} of them ({', '.join(told)})"
        )
    whole = on_nodes + sum(free.values())
    shown = ", ".join([*told, f"{on_nodes} on existing nodes"])
    return f"existing nodes and the free reserved units hold {whole} of them ({shown})"


def _no_domain(key: str, found: dict[str, int]) -> str:
    if not found:
        return f"no capacity that they may use has the label {key}, of which all need the same value"
    held = ", ".join(f"{count} in {domain}" for domain, count in found.items())
    return f"no single {key} holds all of them ({held})"


def _limits(state: PartialPlan, rooms: Sequence[Room], count: int) -> Iterator[str]:
    """For each pool in which a limit leaves too little room, yield the limit and how many replicas it has room for."""
    by_pool: dict[str, list[Room]] = {}
    for room in rooms:
        if room.option is not None:
            by_pool.setdefault(room.option.entry.pool.name, []).append(room)
    for pool_name, own in sorted(by_pool.items()):
        limits = state.residual.limits.get(pool_name, {})
        held = {name: _held_by_limit(own, name, left) for name, left in limits.items()}
        name = min(held, key=lambda name: (held[name], name), default=None)
        if name is not None and held[name] < count:
            left = amount_left(name, limits[name])
            yield f"the {name} limit of pool {pool_name} ({left}) leaves room for {held[name]} of them"


def _held_by_limit(rooms: Sequence[Room], name: str, left: int) -> int:
    """Return how many replicas one limit of their pool leaves room for, with the type that takes least of it."""
    held = 0
    for room in rooms:
        needed = (
            0 if room.option is None else counted(room.option.instance_type.capacity, name)
        )
        held = max(
            held, room.per_node * (max(0, left) // needed) if needed else room.per_node
        )
    return held


def _cost(state: PartialPlan, rooms: Sequence[Room], group: Group) -> tuple[int, int]:
    """Return the hourly cost of the bought and the reserved nodes for all replicas, the cheapest per replica first."""
    rest, left, bought, reserved = group.count, state.residual.copy(), 0, 0
    for room in sorted(
        rooms,
        key=lambda room: 0 if room.option is None else room.option.price / room.per_node,
    ):
        if room.option is None:
            rest = max(0, rest - room.per_node)
            continue
        nodes = min(left.nodes_left(room.option), -(-rest // room.per_node))
        left.take(room.option, nodes)
        rest = max(0, rest - nodes * room.per_node)
        if room.option.reservation is None:
            bought += nodes * room.option.price
        else:
            reserved += nodes * room.option.price
    return bought, reserved


def _too_dear(state: PartialPlan, group: Group, bought: int, reserved: int) -> str | None:
    """Say whose money does not reach for all of them."""
    if group.team_budget is not None and bought > state.price_caps.team_budget_left(group):
        return _dearer(
            bought, whose_budget(state), state.price_caps.team_budget_left(group)
        )
    if (
        group.workload.max_price_micro_usd_per_hour is not None
        and bought + reserved > state.price_caps.left(group)
    ):
        return _dearer(
            bought + reserved, "maxPricePerHour leaves", state.price_caps.left(group)
        )
    return None


def _dearer(cost: int, whose: str, left: int) -> str:
    price, rest = (usd(max(0, amount) // ATTO_USD_PER_MICRO_USD) for amount in (cost, left))
    return f"nodes for all of them cost {price} an hour, and {whose} {rest}"


def whose_budget(state: PartialPlan) -> str:
    """Return whose budget is left, with its verb."""
    has_ceiling = state.catalogue.snapshot.ceiling_micro_usd_per_hour is not None
    if has_ceiling:
        return "its team's budget and the deployment's ceiling leave"
    return "its team's budget leaves"
