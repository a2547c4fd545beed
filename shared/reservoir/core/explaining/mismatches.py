"""What a pool can never give some work: values that it does not sell, resources that its types do not have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from reservoir.core.capacity.offerings import selected_reservations
from reservoir.core.explaining.offering_failures import Failure
from reservoir.core.explaining.pool_reasons import (
    OFFERING_KEYS,
    hint,
    out_of_reach,
    sells_nothing,
)
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import WELL_KNOWN
from reservoir.core.scheduling_terms.requirement import Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.solver.problem.catalogue import (
    Entry,
    OfferedPlace,
    OptionCatalogue,
    accepts,
)


class Mismatches:
    """Compares work with what pools sell, whether or not it is free now."""

    def __init__(self, catalogue: OptionCatalogue) -> None:
        self._catalogue = catalogue
        # by entry: the labels of each place that it sells
        self._sold: dict[int, list[dict[str, str]]] = {}

    def of_offerings(self, entry: Entry, term: Requirements) -> Failure | None:
        """Return what nothing that the pool sells can meet, such as a zone that does not exist; None if all is met."""
        sold, asked = self._labels_sold(entry), _of_places(term)
        if not sold:
            message = sells_nothing(
                self._catalogue.snapshot, entry, list(self._places_of(entry))
            )
            return Failure(ReasonCode.INCOMPATIBLE, message, misses=1)
        unmet = [wanted for wanted in asked if not _is_sold(wanted, sold)]
        if not unmet:
            return None
        lost = out_of_reach(
            self._catalogue.snapshot,
            entry.node_class,
            entry.types,
            (*asked, *_of_places(entry.pool.requirements)),
        )
        if lost is not None:
            return Failure(ReasonCode.INCOMPATIBLE, lost, misses=1)
        told = "; ".join(_not_sold(wanted, sold) for wanted in unmet)
        return Failure(
            ReasonCode.INCOMPATIBLE, f"pool {entry.pool.name} {told}", misses=len(unmet)
        )

    def sells(self, entry: Entry, instance_type: InstanceType, reserved: Set[str]) -> bool:
        """Whether the pool sells the type on any market, or selects a reservation of it."""
        wanted = _of_places(entry.pool.requirements)
        places = (
            OfferedPlace(it.zone, it.zone_id, it.capacity_type)
            for it in instance_type.offerings
        )
        return instance_type.name in reserved or any(
            accepts(place.labels(), wanted) for place in places
        )

    def _labels_sold(self, entry: Entry) -> Sequence[Mapping[str, str]]:
        """Return the labels of every place that the pool sells anything at, full or free."""
        sold = self._sold.get(entry.index)
        if sold is None:
            own = _of_places(entry.pool.requirements)
            each = (place.labels() for place in self._places_of(entry))
            sold = self._sold[entry.index] = [
                labels for labels in each if accepts(labels, own)
            ]
        return sold

    def _places_of(self, entry: Entry) -> Iterator[OfferedPlace]:
        """Yield where and on which markets the pool's types are sold, and the reservations that its class selects."""
        types = {instance_type.name: instance_type for instance_type in entry.types}
        reserved = selected_reservations(self._catalogue.snapshot, entry.node_class)
        found = [OfferedPlace.of(item) for item in reserved if item.instance_type in types]
        offerings = chain.from_iterable(
            instance_type.offerings for instance_type in types.values()
        )
        found += {
            OfferedPlace(offering.zone, offering.zone_id, offering.capacity_type)
            for offering in offerings
        }
        yield from found


def _of_places(requirements: Requirements) -> list[Requirement]:
    """Return the requirements of zone, market and reservation."""
    return [item for key, item in sorted(requirements.items()) if key in OFFERING_KEYS]


# Branches: small questions about resources; only one decides.
def too_large(pool_name: str, small: Sequence[InstanceType], workload: Workload) -> Failure:
    """Return what the nearest of the types that are too small lacks: of the fewest resources, the largest."""

    def has_all(instance_type: InstanceType, names: Iterable[str]) -> bool:
        return all(instance_type.capacity[name] for name in names)

    def has_any(instance_type: InstanceType, names: Iterable[str]) -> bool:
        return any(instance_type.capacity[name] for name in names)

    def had_by_all(name: str) -> bool:
        return all(each.capacity[name] for each in small)

    def nearness(found: tuple[Resources, InstanceType]) -> tuple[int, int, str]:
        missing, instance_type = found
        return (len(missing), -instance_type.allocatable["cpu"], instance_type.name)

    lacking = [(workload.requests.missing(each.allocatable), each) for each in small]
    having = [(missing, each) for missing, each in lacking if has_all(each, missing)]
    missing, nearest = min(having or lacking, key=nearness)
    if having:
        amounts = [f"{name} {amount}" for name, amount in missing.formatted().items()]
        told = ", ".join(amounts) or "pods"
        return Failure(
            ReasonCode.TOO_LARGE,
            f"{nearest.name}, the nearest type of pool {pool_name}, is too small: it lacks {told}",
        )
    absent = [name for name in sorted(missing) if not nearest.capacity[name]]
    told = " and ".join(absent)
    # then another type lacks what this one has
    if any(has_any(each, absent) for each in small):
        not_everywhere = [
            name for name in sorted(workload.requests) if not had_by_all(name)
        ]
        told = f"{' and '.join(not_everywhere)} at once"
    message = f"no type of pool {pool_name} that would fit has {told}"
    return Failure(ReasonCode.TOO_LARGE, message, misses=len(absent), lacks_resource=True)


def unmet_requirements(offered: Requirements, wanted: Requirements) -> list[str]:
    """Return, for each key that cannot be met, why."""
    if offered.admits(wanted, WELL_KNOWN):
        return []  # much cheaper than to ask for words
    found = []
    for key, requirement in sorted(wanted.items()):
        problem = offered.compatible(Requirements.of(requirement), WELL_KNOWN)
        if problem is not None:
            known = offered[key].values if key in offered else frozenset[str]()
            found.append(problem + hint(requirement, known))
    return found


def _is_sold(wanted: Requirement, sold: Sequence[Mapping[str, str]]) -> bool:
    return any(accepts(labels, (wanted,)) for labels in sold)


def _not_sold(wanted: Requirement, sold: Sequence[Mapping[str, str]]) -> str:
    """Say that nothing sold has the value, which values there are, and which was probably meant."""
    known = {labels.get(wanted.key, "") for labels in sold}
    has = ", ".join(sorted(value for value in known if value)) or "none"
    return f"offers nothing with {wanted} (it has {has}{hint(wanted, known)})"
