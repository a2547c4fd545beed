"""The launch request: everything that one CreateFleet call (type instant) needs, decided without AWS.

Equal claims share one request and are taken apart again by instance. The request is recorded before EC2 is called and
replayed as recorded: prices, free addresses and images move between two attempts, and a client token that comes back
with other parameters is refused by EC2.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir import names
from reservoir.core.capacity.unavailable_offerings import SubnetKey
from reservoir.core.launching.launch_pools import (
    AllRestError,
    LaunchPool,
    NoLaunchablePoolError,
    launch_pools,
)
from reservoir.core.launching.launch_template import (
    LaunchTemplate,
    NodeClassUnlaunchableError,
    ReservationTarget,
    checked_tags,
    launch_template,
)
from reservoir.core.launching.user_data import DEPLOYMENT, NODE_CLASS, NODE_POOL, filled
from reservoir.core.model.capacity_reservation import ObservedReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import (
    FleetTargetingMode,
    MachineImage,
    NodeClass,
    Subnet,
)
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.efa import EfaCard, wants_efa
from reservoir.core.serialisation.json_codec import dumps

# MinTargetCapacity and the terminate call that may have to undo it stop here
FLEET_COUNT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class LaunchOverride:
    """One pool of the request; a lower ``priority`` is tried first where the strategy looks at priorities."""

    instance_type: str
    zone: str
    zone_id: str
    subnet_id: str
    priority: int


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """A template with the pools that launch from it."""

    template: LaunchTemplate
    overrides: tuple[LaunchOverride, ...]


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One CreateFleet call. ``all_or_none`` launches ``count`` instances or nothing where EC2 can promise that.

    ``refills_slot``: into the slot of a node that went first, which EC2 may go on scrubbing after it showed it free.
    """

    node_class_name: str
    configs: tuple[LaunchConfig, ...]
    count: int
    capacity_type: CapacityType
    tags: Mapping[str, str]
    security_group_ids: tuple[str, ...] = ()
    target: ReservationTarget | None = None
    all_or_none: bool = False
    refills_slot: bool = False
    node_class_hash: str = ""  # of the class as it was configured when this was built
    # the resource group of reservations that its instances are launched at
    reclaim_group_arn: str | None = None

    @property
    def overrides(self) -> Iterator[LaunchOverride]:
        """The instance types and subnets of all configurations."""
        return chain.from_iterable(config.overrides for config in self.configs)

    @property
    def offerings(self) -> tuple[OfferingKey, ...]:
        """The offerings that the request asks for."""
        reservation_id = None if self.target is None else self.target.reservation_id
        return tuple(
            OfferingKey(
                override.instance_type,
                override.zone,
                override.zone_id,
                self.capacity_type,
                reservation_id,
            )
            for override in self.overrides
        )


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What a request is built from. ``reservation`` is the one that the claims hold a lease on, if any.

    ``for_user_data`` has the names of the deployment's resources that user data may ask for, by placeholder.
    """

    node_class: NodeClass
    catalogue: Mapping[str, InstanceType]
    deployment: str
    now: datetime
    reservation: ObservedReservation | None = None
    resting: Set[OfferingKey] = frozenset()
    full_subnets: Set[SubnetKey] = frozenset()
    # by subnet id, since EC2's counts were read
    taken_addresses: Mapping[str, int] = field(default_factory=dict)
    for_user_data: Mapping[str, str] = field(default_factory=dict)


def launch_key(claim: NodeClaim) -> tuple[object, ...]:
    """Return what two planned claims must have in common to share one batch, that is one CreateFleet call.

    Placements may differ: every alternative of a claim holds its replicas, and equal alternatives make the instances
    of the call interchangeable. Instances with EFAs are others than those without, and those with a team's tag are
    others than those with another's.
    """
    pools = (claim.offering, claim.alternatives)
    return (
        claim.node_pool_name,
        claim.node_class_name,
        claim.gang_key,
        claim.team,
        wants_efa(claim.allocatable),
        *pools,
    )


def build_launch_request(claims: Sequence[NodeClaim], facts: LaunchFacts) -> LaunchRequest:
    """Build the request that launches ``claims``, which share one launch key; the first of them if subnets are short.

    Raises
    ------
    NoLaunchablePoolError
        Nothing remains that EC2 could be asked for.
    NodeClassUnlaunchableError
        The class asks for something that EC2 cannot accept.
    """
    first = claims[0]
    pools = launch_pools(first, facts.catalogue, facts.resting)
    target = _target(first, facts)
    subnets = roomiest_subnets(facts)
    facts = replace(facts, node_class=_with_user_data(facts, first.node_pool_name))
    group_arn = _reclaim_group_arn(first, facts)
    configs = _configs(
        pools, subnets, facts, target, group_arn, with_efa=wants_efa(first.allocatable)
    )
    # where none is counted EC2 may know better
    claims = claims[: _addresses(configs, subnets) or len(claims)]
    return LaunchRequest(
        node_class_name=first.node_class_name,
        configs=configs,
        count=len(claims),
        capacity_type=first.offering.capacity_type,
        tags=_tags(claims, facts),
        security_group_ids=facts.node_class.status.security_group_ids,
        target=target,
        all_or_none=first.gang_key is not None,
        # A replacement that is made before the break gets its replicas only when it runs.
        refills_slot=target is not None
        and all(claim.replaces and claim.placements for claim in claims),
        node_class_hash=facts.node_class.static_hash,
        reclaim_group_arn=group_arn,
    )


def client_token(batch_id: str, attempt: int, request: LaunchRequest) -> str:
    """Return the idempotency token of one attempt: at most 64 ASCII characters, equal for equal requests only."""
    content = f"{batch_id}\n{attempt}\n{dumps(request)}"
    return hashlib.sha256(content.encode()).hexdigest()


def _with_user_data(facts: LaunchFacts, node_pool_name: str) -> NodeClass:
    """Return the class with its user data as the pool's instances get it."""
    node_class = facts.node_class
    if node_class.user_data is None:
        return node_class
    values = {
        **facts.for_user_data,
        DEPLOYMENT: facts.deployment,
        NODE_CLASS: node_class.name,
        NODE_POOL: node_pool_name,
    }
    return replace(node_class, user_data=filled(node_class.user_data, values))


def _target(claim: NodeClaim, facts: LaunchFacts) -> ReservationTarget | None:
    if claim.offering.reservation_id is None:
        return None
    reservation = facts.reservation
    if reservation is None or reservation.id != claim.offering.reservation_id:
        raise NoLaunchablePoolError(
            f"reservation {claim.offering.reservation_id} is not known any more"
        )
    if not reservation.is_active(facts.now):
        # Ended since the plan was made, or a Capacity Block that has begun to drain: it takes no new work.
        raise NoLaunchablePoolError(
            f"reservation {reservation.id} cannot be launched into any more"
        )
    mode = facts.node_class.fleet_targeting_mode
    return ReservationTarget(
        reservation.id, reservation.kind, mode, reservation.placement_group_name
    )


def _reclaim_group_arn(claim: NodeClaim, facts: LaunchFacts) -> str | None:
    """Return the group to launch at: on demand alone, since spot instances cannot target reservations."""
    is_on_demand = claim.offering.capacity_type is CapacityType.ON_DEMAND
    return facts.node_class.status.reclaim_group_arn if is_on_demand else None


def _configs(
    pools: Sequence[LaunchPool],
    subnets: Mapping[str, Subnet],
    facts: LaunchFacts,
    target: ReservationTarget | None,
    group_arn: str | None,
    *,
    with_efa: bool,
) -> tuple[LaunchConfig, ...]:
    images = newest_images(facts.node_class.status.machine_images)
    if not images or not facts.node_class.status.subnets:
        missing = "AMI" if not images else "subnet"
        raise NodeClassUnlaunchableError(f"no {missing} was found for the class")
    overrides: dict[tuple[str, tuple[EfaCard, ...]], list[LaunchOverride]] = {}
    for priority, pool in enumerate(pools):
        subnet = subnets.get(pool.offering.zone_id)
        image = images.get(_architecture(pool.instance_type))
        if subnet is None or image is None:
            continue
        efa_cards = pool.instance_type.efa_cards if with_efa else ()
        overrides.setdefault((image.id, efa_cards), []).append(
            LaunchOverride(
                pool.offering.instance_type,
                subnet.zone,
                subnet.zone_id,
                subnet.id,
                priority,
            )
        )
    if not overrides:
        raise _nowhere(pools, facts)
    return tuple(
        LaunchConfig(
            launch_template(
                facts.node_class,
                image_id,
                facts.deployment,
                target,
                efa_cards,
                group_arn,
            ),
            tuple(group),
        )
        for (image_id, efa_cards), group in overrides.items()
    )


def _nowhere(
    pools: Sequence[LaunchPool], facts: LaunchFacts
) -> AllRestError | NoLaunchablePoolError:
    """Say why no pool has a subnet and an AMI: it passes if subnets that are full could serve one."""
    full = {
        s.zone_id
        for s in facts.node_class.status.subnets
        if SubnetKey(s.id) in facts.full_subnets
    }
    if any(pool.offering.zone_id in full for pool in pools):
        return AllRestError("every subnet of the zone is out of addresses")
    return NoLaunchablePoolError(
        "the class has no subnet in the zone, or no AMI for the architecture"
    )


def roomiest_subnets(facts: LaunchFacts) -> Mapping[str, Subnet]:
    """Return the subnet with the most free addresses of each zone id (R-123); EC2 takes one a zone.

    Counts are EC2's last ones less the addresses that were taken since; resting subnets are left out.
    """
    counted = [
        replace(
            subnet,
            available_ip_count=subnet.available_ip_count
            - facts.taken_addresses.get(subnet.id, 0),
        )
        for subnet in facts.node_class.status.subnets
        if SubnetKey(subnet.id) not in facts.full_subnets
    ]
    best: dict[str, Subnet] = {}
    for subnet in sorted(counted, key=lambda s: (-s.available_ip_count, s.id)):
        best.setdefault(subnet.zone_id, subnet)
    return best


def _addresses(configs: Sequence[LaunchConfig], subnets: Mapping[str, Subnet]) -> int:
    """Return how many instances the request's subnets have addresses for.

    An instance takes one address; its further interfaces carry nothing but an EFA.
    """
    overrides = chain.from_iterable(config.overrides for config in configs)
    zone_ids = {override.zone_id for override in overrides}
    return sum(max(0, subnets[zone_id].available_ip_count) for zone_id in zone_ids)


def newest_images(images: Sequence[MachineImage]) -> Mapping[str, MachineImage]:
    """Return the newest AMI of each architecture; creation dates are ISO 8601, so text order is time order."""
    newest: dict[str, MachineImage] = {}
    for image in sorted(images, key=lambda i: (i.created_at, i.id)):
        newest[image.architecture] = image
    return newest


def _architecture(instance_type: InstanceType) -> str:
    return min(instance_type.requirements[labels.ARCH].values, default="amd64")


def _tags(claims: Sequence[NodeClaim], facts: LaunchFacts) -> Mapping[str, str]:
    """Tags of the fleet, its instances, volumes and network interfaces.

    Fleet tags are equal for all instances of a call: only a claim that is alone in its batch can be named here. In a
    larger batch the assignment follows from the recorded outcome, and the claim's tag follows it.
    """
    first = claims[0]
    tags = {
        **checked_tags(facts.node_class),
        names.OWNER_TAG: facts.deployment,
        names.BATCH_TAG: first.batch_id,
        names.NODE_POOL_TAG: first.node_pool_name,
        names.NODE_CLASS_TAG: first.node_class_name,
    }
    if len(claims) == 1:
        tags[names.NODE_CLAIM_TAG] = first.id
    if first.team:
        tags[names.TEAM_TAG] = first.team
    return tags


def supports_minimum(request: LaunchRequest) -> bool:
    """Whether EC2 itself can promise all or nothing.

    MinTargetCapacity belongs to the on-demand and spot options, which requests for Capacity Blocks and
    reserved-capacity requests must not have; there a partial launch is undone by us.
    """
    if request.count > FLEET_COUNT_MAX:
        return False
    target = request.target
    return target is None or (
        target.kind is ReservationKind.DEFAULT and not uses_reserved_capacity(target)
    )


def uses_reserved_capacity(target: ReservationTarget) -> bool:
    """Whether the request has ``reserved-capacity`` (the only way to use interruptible reservations)."""
    return (
        target.kind is ReservationKind.INTERRUPTIBLE
        or target.mode is FleetTargetingMode.RESERVED_CAPACITY
    )
