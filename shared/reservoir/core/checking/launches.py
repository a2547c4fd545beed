"""Rules about one node: its offering, its price, and whether all replicas on it may be there together."""

from collections.abc import Iterator, Mapping
from itertools import chain

from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.final_state.demand_facts import STRANGER
from reservoir.core.checking.final_state.facts import Facts, Host, LaunchClass, tallied
from reservoir.core.checking.final_state.offering_facts import Listed, in_words
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.capacity_reservation import BlockDrain
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, PlannedNodes
from reservoir.core.model.policy import MinValuesPolicy, NoDurationPolicy
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources


def node_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Check every launch and every existing node that is given replicas."""
    problems = {
        launch_class: _launch_problem(facts, launch_class.launch)
        for launch_class in dict.fromkeys(facts.launch_classes)
    }
    for index, (launch, launch_class) in enumerate(
        zip(facts.plan.launches, facts.launch_classes, strict=True)
    ):
        problem = problems[launch_class]
        if launch.count < 1 or not launch.placements:
            problem = ViolationCode.REPLICA_COUNT, "launches no node, or nodes for nothing"
        if problem is not None:
            subject = f"launch {index} ({in_words(launch.offering)})"
            yield Violation(
                problem[0], subject, problem[1], tuple(tallied(launch.placements))
            )
    for host in facts.changed:
        load, classes = facts.carried(host.placed)
        if host.launch_class is None or not _is_fine(
            facts, topology, host, host.launch_class, load, classes
        ):
            yield from _judged(facts, topology, host, load, classes)
    yield from _existing(facts)


def _is_fine(
    facts: Facts,
    topology: Topology,
    host: Host,
    launch_class: LaunchClass,
    load: int,
    classes: int,
) -> bool:
    """Whether the node is like one that was judged before: nearly every one is."""
    return (
        classes in launch_class.fine
        and facts.packing.fits(load, launch_class.least)
        and not (launch_class.is_wide and topology.hold(host.placed))
    )


def _judged(
    facts: Facts, topology: Topology, host: Host, load: int, classes: int
) -> Iterator[Violation]:
    """Check one node, and remember its content if there is no violation."""
    found = (
        [_strangers(facts, host)]
        if classes & STRANGER
        else [*_content(facts, host, load, classes)]
    )
    launch_class, pool = host.launch_class, host.pool
    if launch_class is not None and pool is not None:
        found.extend(_alternatives(facts, topology, host, pool, launch_class))
        is_reserved = launch_class.launch.offering.capacity_type is CapacityType.RESERVED
        # which depend on sizes too
        if not found and not (is_reserved and facts.min_values(pool)):
            launch_class.fine.add(classes)
    yield from found


# Branches: one question after the other, each with its own answer.
def _launch_problem(facts: Facts, launch: PlannedNodes) -> tuple[ViolationCode, str] | None:
    """Return what is wrong with the launch itself, apart from its replicas."""
    pool = facts.pools.get(launch.node_pool_name)
    node_class = facts.classes.get(launch.node_class_name)
    if pool is None or node_class is None or pool.node_class_name != launch.node_class_name:
        return (
            ViolationCode.UNKNOWN_NAME,
            f"pool {launch.node_pool_name} with class {launch.node_class_name}",
        )
    if launch.offering.instance_type not in facts.types:
        return ViolationCode.UNKNOWN_NAME, "no such instance type"
    if pool.replicas is not None:
        return ViolationCode.OFFERING, f"pool {pool.name} is static"
    if pool.paused is not None:
        return ViolationCode.OFFERING, f"pool {pool.name} is paused"
    if launch.offering.capacity_type is CapacityType.RESERVED:
        problem = _reserved_problem(facts, launch)
    else:
        problem = _bought_problem(facts, launch.offering, launch.price_atto_usd_per_hour)
    if problem is not None:
        return problem
    class_problem = facts.class_problem(node_class, launch.offering)
    if class_problem is not None:
        return ViolationCode.OFFERING, f"class {node_class.name} {class_problem}"
    if facts.description(pool, launch.offering) is None:
        return ViolationCode.OFFERING, f"pool {pool.name} does not allow it"
    return None


def _bought_problem(
    facts: Facts, key: OfferingKey, price_atto_usd: int | None
) -> tuple[ViolationCode, str] | None:
    offering = facts.offering(key)
    if key.reservation_id is not None or offering is None:
        return ViolationCode.OFFERING, "is not offered"
    if not offering.is_available(facts.now):
        return (
            ViolationCode.OFFERING,
            f"is not available before {offering.unavailable_until}",
        )
    right = offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
    if price_atto_usd is not None and price_atto_usd != right:
        return (
            ViolationCode.PRICE,
            f"priced at {price_atto_usd} instead of {right} atto-USD an hour",
        )
    return None


def _reserved_problem(
    facts: Facts, launch: PlannedNodes
) -> tuple[ViolationCode, str] | None:
    key = launch.offering
    reservation = facts.reservations.get(key.reservation_id or "")
    if reservation is None:
        return ViolationCode.UNKNOWN_NAME, "no such reservation"
    named = (key.instance_type, key.zone, key.zone_id)
    if named != (reservation.instance_type, reservation.zone, reservation.zone_id):
        return (
            ViolationCode.RESERVATION_UNUSABLE,
            f"{reservation.id} is for another type or zone",
        )
    problem = facts.reservation_problem(reservation, facts.classes[launch.node_class_name])
    if problem is not None:
        return ViolationCode.RESERVATION_UNUSABLE, f"{reservation.id} {problem}"
    if not facts.is_reserved_price(key, launch.price_atto_usd_per_hour):
        return (
            ViolationCode.PRICE,
            f"{launch.price_atto_usd_per_hour} atto-USD an hour is not its near-zero price",
        )
    return None


def _strangers(facts: Facts, host: Host) -> Violation:
    keys = tuple(sorted(host.placed))
    unknown = [key for key in keys if key not in facts.pending]
    message = f"carries {', '.join(unknown)}, which is not pending"
    return Violation(ViolationCode.UNKNOWN_NAME, host.subject, message, keys)


def _content(facts: Facts, host: Host, load: int, classes: int) -> Iterator[Violation]:
    """Check what the node carries in the final state."""
    if not host.placed:
        return
    site = facts.site(host)
    if not facts.packing.fits(load, facts.room(host)):
        lacking = facts.load(host.placed).missing(host.allocatable - host.used)
        message = f"lacks {lacking.formatted()}"
        yield Violation(
            ViolationCode.RESOURCES, host.subject, message, tuple(sorted(host.placed))
        )
    if not facts.may_meet(site, host.placed, classes):
        keys = tuple(sorted(host.placed))
        message = f"cannot meet what {', '.join(keys)} require"
        yield Violation(ViolationCode.REQUIREMENTS, host.subject, message, keys)
    yield from _notices(facts, host)
    for key in host.placed:
        if not classes & ~site.fine:
            return  # nearly always before the first
        placement_class = facts.placement_class(facts.workloads[key])
        found = [] if placement_class & site.fine else list(_replicas(facts, host, key))
        yield from found
        if not found:
            site.fine |= placement_class


def _notices(facts: Facts, host: Host) -> Iterator[Violation]:
    """Check that no replica on a draining node asks for a notice that shortens another's time."""
    drain = _block_drain(facts, host)
    longest_s = max(facts.workloads[key].checkpoint_period_s or 0 for key in host.placed)
    if drain is not None and longest_s:
        yield from _cut_short(facts, host, drain, longest_s)


def _cut_short(
    facts: Facts, host: Host, drain: BlockDrain, longest_s: int
) -> Iterator[Violation]:
    for workload in map(facts.workloads.__getitem__, host.placed):
        if facts.outlasts(workload, drain, longest_s) and not facts.outlasts(
            workload, drain
        ):
            message = f"{workload.key} would outlast the start of the {longest_s} s of notice that work beside it wants"
            yield Violation(ViolationCode.DURATION, host.subject, message, (workload.key,))
    leaves_at = None if host.node is None else host.node.leaves_at
    told_at = drain.for_notice(longest_s).starts_at
    if leaves_at is not None and told_at < min(drain.starts_at, leaves_at):
        message = f"what runs there until {leaves_at} would be told at {told_at} already, for who is put beside it"
        yield Violation(
            ViolationCode.DURATION, host.subject, message, tuple(sorted(host.placed))
        )


def _replicas(facts: Facts, host: Host, key: str) -> Iterator[Violation]:
    """Check a replica by its placement class alone; the answer is the same for all nodes of a site."""
    workload = facts.workloads[key]
    if not facts.tolerates(facts.site(host).taints, workload):
        yield Violation(
            ViolationCode.TAINT, host.subject, f"{key} does not tolerate its taints", (key,)
        )
    market = host.capacity_type
    if market not in facts.markets(workload):
        yield Violation(
            ViolationCode.FALLBACK,
            host.subject,
            f"the ladder of {key} has not reached {market}",
            (key,),
        )
    drain = _block_drain(facts, host)
    if drain is not None and facts.outlasts(workload, drain):
        drains_at = drain.for_notice(workload.checkpoint_period_s or 0).starts_at
        message = f"{key} would outlast the start of draining {drains_at}"
        yield Violation(ViolationCode.DURATION, host.subject, message, (key,))
    avoids = (
        facts.policy.no_duration_policy is NoDurationPolicy.AVOID
        and workload.duration_s is None
    )
    if drain is not None and avoids:
        yield Violation(
            ViolationCode.DURATION,
            host.subject,
            f"{key} has no duration, the capacity an end",
            (key,),
        )


def _block_drain(facts: Facts, host: Host) -> BlockDrain | None:
    reservation = (
        None
        if host.planned is None
        else facts.reservations.get(host.planned.offering.reservation_id or "")
    )
    return host.block_drain if reservation is None else reservation.block_drain()


def _existing(facts: Facts) -> Iterator[Violation]:
    """Check that replicas are only given to nodes that stay."""
    for placement in facts.plan.existing:
        node = facts.nodes.get(placement.claim_id)
        subject, keys = f"node {placement.claim_id}", tuple(tallied(placement.placements))
        if node is None or node.deleting:
            yield Violation(
                ViolationCode.UNKNOWN_NAME, subject, "does not exist or is going away", keys
            )
        elif node.drain_at is not None and node.drain_at <= facts.now:
            yield Violation(ViolationCode.DURATION, subject, "already drains", keys)


def _alternatives(
    facts: Facts, topology: Topology, host: Host, pool: NodePool, launch_class: LaunchClass
) -> Iterator[Violation]:
    """Alternatives must be able to take the node's place: launching any of them may not break another rule."""
    launch = launch_class.launch
    if launch.offering.capacity_type is CapacityType.RESERVED and launch.alternatives:
        message = "a reserved claim is bound to its reservation"
        yield Violation(
            ViolationCode.ALTERNATIVE, host.subject, message, tuple(host.placed)
        )
        return
    if len(launch.alternatives) > facts.policy.alternatives_max:
        message = f"{len(launch.alternatives)} alternatives"
        yield Violation(
            ViolationCode.ALTERNATIVE, host.subject, message, tuple(host.placed)
        )
    if launch_class.listed is not None:
        problem = _alternative_problem(
            facts, topology, host, pool, launch_class.listed, is_wide=launch_class.is_wide
        )
        if problem is not None:
            yield Violation(
                ViolationCode.ALTERNATIVE, host.subject, problem, tuple(host.placed)
            )
    wanted = facts.min_values(pool)
    if wanted and facts.policy.min_values_policy is MinValuesPolicy.STRICT:
        yield from _min_values(facts, host, pool, wanted)


def _alternative_problem(
    facts: Facts,
    topology: Topology,
    host: Host,
    pool: NodePool,
    listed: Listed,
    *,
    is_wide: bool,
) -> str | None:
    """Return what is wrong with the alternatives, if anything; ``is_wide``: one is in another zone."""
    load, classes = facts.carried(host.placed)
    if listed.problem is not None:
        return listed.problem
    if is_wide and topology.hold(host.placed):
        return "an alternative is in another zone, which topology forbids"
    if not facts.packing.fits(load, facts.packing.room(listed.least)):
        least = dict(zip(facts.resource_names, listed.least, strict=True))
        return f"an alternative lacks {next(iter(facts.load(host.placed).missing(Resources.of(least))))}"
    for key in host.placed:
        if not classes & ~listed.fine:
            return None  # nearly always before the first
        if key not in facts.workloads:
            continue
        placement_class = facts.placement_class(facts.workloads[key])
        if not placement_class & listed.fine and not facts.all_accept(
            pool, listed, facts.workloads[key]
        ):
            return f"an alternative does not meet what {key} requires"
        listed.fine |= placement_class
    return None


def _min_values(
    facts: Facts, host: Host, pool: NodePool, wanted: Mapping[str, int]
) -> Iterator[Violation]:
    """Distinct values among the types that may be launched (R-17); a reserved claim counts those it could use."""
    launch = host.planned
    assert launch is not None
    names = {
        launch.offering.instance_type,
        *(key.instance_type for key in launch.alternatives),
    }
    if launch.offering.capacity_type is CapacityType.RESERVED:
        names = facts.hosting_types(pool, launch)
    for key, least in wanted.items():
        values = set(
            chain.from_iterable(
                facts.types[name].requirements[key].values for name in names
            )
        )
        if (
            key not in (labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE)
            and len(values) < least
        ):
            message = f"{len(values)} values of {key} where the pool asks for {least}"
            yield Violation(
                ViolationCode.MIN_VALUES, host.subject, message, tuple(host.placed)
            )
