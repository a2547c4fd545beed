"""Which pools (instance type and zone) of a market one launch may offer to EC2, in price order (R-108 to R-117).

A claim names its offering and, on spot and on-demand, alternatives that could hold the same replicas. A reserved claim
is bound to exactly one reservation, hence to one type and zone, so Karpenter's filters among reservations (R-110 to
R-113) have nothing left to choose here.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import chain
from typing import Final

from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import ACCELERATORS

INSTANCE_TYPES_MAX: Final = 60  # as Karpenter cuts; more only lengthens the request
_METAL: Final = "metal"


class NoLaunchablePoolError(Exception):
    """Nothing remains that EC2 could be asked for: as an insufficient-capacity answer, without the call (R-108)."""


class AllRestError(NoLaunchablePoolError):
    """Every pool that would remain rests already: the next plan sees that, so nothing new is stored."""


@dataclass(frozen=True, slots=True)
class LaunchPool:
    """One pool; ``price_micro_usd_per_hour`` None when no price is known, which sorts last."""

    offering: OfferingKey
    instance_type: InstanceType
    price_micro_usd_per_hour: int | None

    @property
    def sort_key(self) -> tuple[bool, int, str, str]:
        """Cheapest first; ties by name and zone."""
        price = self.price_micro_usd_per_hour
        return (
            price is None,
            price or 0,
            self.offering.instance_type,
            self.offering.zone_id,
        )


def launch_pools(
    claim: NodeClaim, catalogue: Mapping[str, InstanceType], resting: Set[OfferingKey]
) -> tuple[LaunchPool, ...]:
    """Return the pools to launch ``claim`` from, cheapest first; ``resting`` are offerings with a known shortage.

    Raises
    ------
    NoLaunchablePoolError
        No pool remains.
    """
    if claim.offering.reservation_id is not None:
        instance_type = catalogue.get(claim.offering.instance_type)
        if instance_type is None:
            raise NoLaunchablePoolError(
                f"instance type {claim.offering.instance_type} is not in the catalogue"
            )
        return (LaunchPool(claim.offering, instance_type, None),)
    candidates = (claim.offering, *claim.alternatives)
    priced = sorted(_priced(candidates, catalogue), key=lambda pool: pool.sort_key)
    known = [pool for pool in priced if pool.offering not in resting]
    pools = [
        pool
        for pool in known
        if pool.offering.capacity_type is claim.offering.capacity_type
    ]
    if not pools:
        raise AllRestError("every offering rests after a shortage")
    # minValues asks for variety, which these two filters would take away
    if not claim.min_values:
        pools = _without_exotic(pools)
        pools = _without_dear_spot(pools, known)
    return _cut(pools, claim.min_values)


def left_to_choose(
    offerings: Iterable[OfferingKey],
    wanted: Mapping[str, int],
    catalogue: Mapping[str, InstanceType],
) -> Mapping[str, int]:
    """Return, by label, how many distinct values the offerings have, at most as many as are wanted.

    That is what a launch must keep of the choice that its plan leaves: fewer than wanted only if the deployment's
    minValuesPolicy is BestEffort (R-53).
    """
    pools = _priced(offerings, catalogue)
    return {key: min(least, len(_distinct(pools, key))) for key, least in wanted.items()}


def _priced(
    offerings: Iterable[OfferingKey], catalogue: Mapping[str, InstanceType]
) -> list[LaunchPool]:
    pools = {}
    for offering in offerings:
        instance_type = catalogue.get(offering.instance_type)
        if instance_type is None:
            continue
        prices = [
            known.price_micro_usd_per_hour
            for known in instance_type.offerings
            if known.zone_id == offering.zone_id
            and known.capacity_type is offering.capacity_type
        ]
        pools[offering] = LaunchPool(offering, instance_type, min(prices, default=None))
    return list(pools.values())


def _is_exotic(instance_type: InstanceType) -> bool:
    """Whether it is a metal size or has accelerators: slow to boot or expensive, not to be used by chance (R-114)."""
    return _METAL in instance_type.name.partition(".")[2] or any(
        instance_type.capacity[name] > 0 for name in ACCELERATORS
    )


def _without_exotic(pools: list[LaunchPool]) -> list[LaunchPool]:
    return [pool for pool in pools if not _is_exotic(pool.instance_type)] or pools


def _without_dear_spot(
    pools: list[LaunchPool], known: Iterable[LaunchPool]
) -> list[LaunchPool]:
    """Drop spot pools that cost more than the cheapest on-demand alternative; on-demand is then taken (R-115)."""
    on_demand = [p for p in known if p.offering.capacity_type is CapacityType.ON_DEMAND]
    ceiling = min(_prices(on_demand), default=None)
    if ceiling is None or pools[0].offering.capacity_type is not CapacityType.SPOT:
        return pools
    # A pool whose price is not known stays: it need not be expensive.
    cheap = [pool for pool in pools if (pool.price_micro_usd_per_hour or 0) <= ceiling]
    if not cheap:
        raise NoLaunchablePoolError("every spot offering costs more than on-demand")
    return cheap


def _prices(pools: Iterable[LaunchPool]) -> list[int]:
    """Return the prices that are known, in millionths of a USD an hour."""
    return [
        pool.price_micro_usd_per_hour
        for pool in pools
        if pool.price_micro_usd_per_hour is not None
    ]


def _cut(pools: list[LaunchPool], min_values: Mapping[str, int]) -> tuple[LaunchPool, ...]:
    kept: list[str] = []
    for pool in pools:
        if pool.offering.instance_type not in kept and len(kept) < INSTANCE_TYPES_MAX:
            kept.append(pool.offering.instance_type)
    cut = tuple(pool for pool in pools if pool.offering.instance_type in kept)
    for key, least in min_values.items():
        found = len(_distinct(cut, key))
        if found < least:
            raise NoLaunchablePoolError(
                f"{found} values of {key} remain, minValues asks {least}"
            )
    return cut


def _distinct(pools: Iterable[LaunchPool], key: str) -> Set[str]:
    return set(chain.from_iterable(_values(pool, key) for pool in pools))


_OFFERING_VALUES: Final[Mapping[str, Callable[[OfferingKey], str]]] = {
    labels.INSTANCE_TYPE: lambda offering: offering.instance_type,
    labels.ZONE: lambda offering: offering.zone,
    labels.ZONE_ID: lambda offering: offering.zone_id,
    labels.CAPACITY_TYPE: lambda offering: offering.capacity_type.value,
}


def _values(pool: LaunchPool, key: str) -> Iterable[str]:
    of_offering = _OFFERING_VALUES.get(key)
    if of_offering is not None:
        return (of_offering(pool.offering),)
    return pool.instance_type.requirements[key].values
