"""From EC2's instance types and AWS's prices to the catalogue."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from reservoir.core.capacity.catalogue import Discovered, compose
from reservoir.core.model.instance_type import InstanceType
from reservoir.ports.discovery import InstanceTypeReader, PriceReader
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import WorkQueue
from reservoir.ports.state import OfferingStore

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class OfferingsDiscovery:
    """What a run found."""

    type_count: int
    written_count: int
    unpriced: tuple[str, ...]
    priced_from_before: tuple[str, ...]
    spot_lost: tuple[str, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiscoverOfferings:
    """One run, every 12 hours (prices change slowly; shortages are learnt from launches)."""

    types: InstanceTypeReader
    prices: PriceReader
    offerings: OfferingStore
    queue: WorkQueue

    def run(self) -> OfferingsDiscovery:
        """Read and save once. Without types or zones nothing is saved and AwsError is raised; prices may be missing.

        Raises UnreadableRowsError when the stored catalogue cannot be read, and ConflictError when others keep writing
        it.
        """
        failures: list[str] = []
        types = self.types.list_types()
        zones = self.types.list_zones()
        before = tuple(map(_without_shortages, self.offerings.load_catalogue()))
        discovered = Discovered(
            types=types,
            zone_ids=zones.zone_ids,
            zone_names=zones.zone_names,
            on_demand=_read("on-demand prices", self.prices.on_demand, failures),
            spot=_read("spot prices", self.prices.spot, failures),
        )
        catalogue = compose(discovered, before)
        written = self.offerings.save_catalogue(catalogue.instance_types)
        if written:
            self.queue.wake_planner(reason="offerings changed")
        return OfferingsDiscovery(
            type_count=len(catalogue.instance_types),
            written_count=written,
            unpriced=catalogue.unpriced,
            priced_from_before=catalogue.priced_from_before,
            spot_lost=catalogue.spot_lost,
            failures=tuple(failures),
        )


def _read(
    what: str, call: Callable[[], Mapping[K, int]], failures: list[str]
) -> Mapping[K, int] | None:
    """Read prices; an empty answer is as good as a failure (R-199)."""
    try:
        prices = call()
    except AwsError as error:
        failures.append(f"{what}: {error.code}")
        return None
    if not prices:
        failures.append(f"{what}: none")
        return None
    return prices


def _without_shortages(instance_type: InstanceType) -> InstanceType:
    offerings = tuple(
        replace(offering, unavailable_until=None, unavailable_reason="")
        for offering in instance_type.offerings
    )
    return replace(instance_type, offerings=offerings)
