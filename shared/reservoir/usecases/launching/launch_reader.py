"""What a launch is built from, read side by side."""

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime

from reservoir.core.capacity.unavailable_offerings import (
    ClassMarketKey,
    NodeClassKey,
    Place,
    SubnetKey,
    Unavailable,
    resting,
)
from reservoir.core.launching.launch_pools import AllRestError
from reservoir.core.launching.launch_request import LaunchFacts
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.plan import OfferingKey
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.state import OfferingStore, ReservationRecord, ReservationStore


@dataclass(frozen=True, slots=True)
class LaunchReading:
    """What was read for claims that are launched together.

    ``node_class`` None: it does not exist. ``paused``: who paused the pool, and why. ``catalogue`` has the types that
    the claims may be launched as, and no others.
    """

    node_class: NodeClass | None
    paused: str | None
    reservation: ReservationRecord | None
    catalogue: tuple[InstanceType, ...]
    rests: Mapping[Place, Unavailable]
    for_user_data: Mapping[str, str]

    def facts(
        self,
        node_class: NodeClass,
        deployment: str,
        now: datetime,
        probed: frozenset[OfferingKey],
        launched: Iterable[NodeClaim],
        capacity_type: CapacityType,
    ) -> LaunchFacts:
        """Return what a request is built from; raises AllRestError when the class rests, or does on this market.

        ``probed`` are offerings that other batches are asking for, ``launched`` claims whose addresses are taken.
        """
        name, known_as = node_class.name, node_class.static_hash
        of_class = self.rests.get(NodeClassKey(name, known_as))
        if of_class is not None:
            raise AllRestError(
                f"class {name} rests until {of_class.until:%H:%M} UTC: {of_class.reason}"
            )
        of_market = self.rests.get(ClassMarketKey(name, known_as, capacity_type))
        if of_market is not None:
            what = f"{capacity_type} launches of class {name}"
            raise AllRestError(
                f"{what} rest until {of_market.until:%H:%M} UTC: {of_market.reason}"
            )
        return LaunchFacts(
            node_class=node_class,
            catalogue={
                instance_type.name: instance_type for instance_type in self.catalogue
            },
            deployment=deployment,
            now=now,
            reservation=None if self.reservation is None else self.reservation.reservation,
            resting=resting(self.catalogue, now) | probed,
            full_subnets=frozenset(
                place for place in self.rests if isinstance(place, SubnetKey)
            ),
            taken_addresses=Counter(
                each.subnet_id for each in launched if each.subnet_id is not None
            ),
            for_user_data=self.for_user_data,
        )


@dataclass(frozen=True, slots=True)
class LaunchReader:
    """Reads what a batch of launches needs."""

    policy: LaunchPolicy
    reservations: ReservationStore
    offerings: OfferingStore
    executor: Executor
    # names of the deployment, by placeholder
    for_user_data: Mapping[str, str] = field(default_factory=dict)
    # of all that the deployment launches
    tags: Mapping[str, str] = field(default_factory=dict)

    def read(self, claim: NodeClaim) -> LaunchReading:
        """Read what a launch of the claim, and of others like it, needs. Raises UnreadableRowsError."""
        node_class = self.executor.submit(self.policy.node_class, claim.node_class_name)
        node_pool = self.executor.submit(self.policy.node_pool, claim.node_pool_name)
        reservation = self.executor.submit(self._reservation, claim)
        catalogue, rests = self.offerings.load_with_rests(_types_of(claim))
        pool = node_pool.result()
        paused = None if pool is None else pool.paused
        tagged = self._tagged(node_class.result())
        return LaunchReading(
            tagged, paused, reservation.result(), catalogue, rests, self.for_user_data
        )

    def _tagged(self, node_class: NodeClass | None) -> NodeClass | None:
        """Return the class with the deployment's tags; its own say more. Nodes do not drift when these change."""
        if node_class is None or not self.tags:
            return node_class
        return replace(node_class, tags={**self.tags, **node_class.tags})

    def _reservation(self, claim: NodeClaim) -> ReservationRecord | None:
        reservation_id = claim.offering.reservation_id
        return None if reservation_id is None else self.reservations.get(reservation_id)


def _types_of(claim: NodeClaim) -> frozenset[str]:
    return frozenset(
        offering.instance_type for offering in (claim.offering, *claim.alternatives)
    )
