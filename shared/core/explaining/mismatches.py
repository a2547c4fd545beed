"""What a pool can never give some work: values that it does not sell, resources that its types do not have."""

from collections.abc import Iterator, Mapping, Sequence, Set

from shared.core.capacity.offerings import OFFERING_LABELS, selected_reservations
from shared.core.explaining.offering_failures import Failure
from shared.core.model.instance_type import CapacityType, InstanceType
from shared.core.model.plan import ReasonCode
from shared.core.model.workload import Workload
from shared.core.scheduling_terms.labels import CAPACITY_TYPE, RESERVATION_LABELS, WELL_KNOWN, closest
from shared.core.scheduling_terms.requirement import Requirement
from shared.core.scheduling_terms.requirements import Requirements
from shared.core.scheduling_terms.resources import Resources
from shared.core.solver.problem.catalogue import Entry, OfferedPlace, OptionCatalogue, accepts

OFFERING_KEYS = OFFERING_LABELS | RESERVATION_LABELS


class Mismatches:
    """Compares work with what pools sell, whether or not it is free now."""

    def __init__(self, catalogue: OptionCatalogue) -> None:
        self._catalogue = catalogue
        self._sold: dict[int, list[dict[str, str]]] = {}  # by entry: the labels of each place that it sells

    def of_offerings(self, entry: Entry, term: Requirements) -> Failure | None:
        """Return what nothing that the pool sells can meet, such as a zone that does not exist; None if all is met."""
        sold = self._labels_sold(entry)
        if not sold:
            return Failure(ReasonCode.INCOMPATIBLE, _sells_nothing(entry), misses=1)
        unmet = [
            wanted
            for key, wanted in sorted(term.items())
            if key in OFFERING_KEYS and not any(accepts(labels, (wanted,)) for labels in sold)
        ]
        if not unmet:
            return None
        told = "; ".join(_not_sold(wanted, {labels.get(wanted.key, "") for labels in sold}) for wanted in unmet)
        return Failure(ReasonCode.INCOMPATIBLE, f"pool {entry.pool.name} {told}", misses=len(unmet))

    def sells(self, entry: Entry, kind: InstanceType, reserved: Set[str]) -> bool:
        """Whether the pool sells the type on any market, or selects a reservation of it."""
        wanted = [item for name, item in entry.pool.requirements.items() if name in OFFERING_KEYS]
        return kind.name in reserved or any(
            accepts(OfferedPlace(it.zone, it.zone_id, it.capacity_type).labels(), wanted) for it in kind.offerings
        )

    def _labels_sold(self, entry: Entry) -> Sequence[Mapping[str, str]]:
        """Return the labels of every place that the pool sells anything at, full or free."""
        sold = self._sold.get(entry.index)
        if sold is None:
            sold = self._sold[entry.index] = [place.labels() for place in self._places_of(entry)]
        return sold

    def _places_of(self, entry: Entry) -> Iterator[OfferedPlace]:
        """Yield where and on which markets the pool sells anything, and the reservations that it selects."""
        wanted = [item for name, item in entry.pool.requirements.items() if name in OFFERING_KEYS]
        kinds = {kind.name: kind for kind in entry.types}
        reserved = selected_reservations(self._catalogue.snapshot, entry.node_class)
        found = [OfferedPlace.of(item) for item in reserved if item.instance_type in kinds]
        found += {
            OfferedPlace(offering.zone, offering.zone_id, offering.capacity_type)
            for kind in kinds.values()
            for offering in kind.offerings
        }
        yield from (place for place in found if accepts(place.labels(), wanted))


def _sells_nothing(entry: Entry) -> str:
    markets = entry.pool.requirements.get(CAPACITY_TYPE)
    if markets is not None and markets.values == frozenset({CapacityType.RESERVED.value}):
        return (
            f"pool {entry.pool.name} uses reserved capacity only, and class {entry.node_class.name} selects no"
            " reservation of its instance types"
        )
    return f"pool {entry.pool.name} sells none of its instance types on any market that it allows"


# Branches: comprehensions of a line each; only one question decides.
def too_large(pool_name: str, small: Sequence[InstanceType], workload: Workload) -> Failure:
    """Return what the nearest of the types that are too small lacks: of the fewest resources, the largest."""

    def nearness(found: tuple[Resources, InstanceType]) -> tuple[int, int, str]:
        missing, kind = found
        return (len(missing), -kind.allocatable["cpu"], kind.name)

    lacking = [(workload.requests.missing(kind.allocatable), kind) for kind in small]
    having = [(missing, kind) for missing, kind in lacking if all(kind.capacity[name] for name in missing)]
    missing, kind = min(having or lacking, key=nearness)
    if having:
        told = ", ".join(f"{name} {amount}" for name, amount in missing.formatted().items()) or "pods"
        return Failure(ReasonCode.TOO_LARGE, f"{kind.name}, the nearest type of pool {pool_name}, lacks {told}")
    absent = [name for name in sorted(missing) if not kind.capacity[name]]
    message = f"no type of pool {pool_name} that would serve has {' and '.join(absent)}"
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
            found.append(problem + _hint(requirement, known))
    return found


def _not_sold(wanted: Requirement, known: Set[str]) -> str:
    """Say that nothing sold has a value, what there is, and what was probably meant."""
    has = ", ".join(sorted(value for value in known if value)) or "none"
    return f"sells nothing with {wanted} (it has {has}{_hint(wanted, known)})"


def _hint(wanted: Requirement, known: Set[str]) -> str:
    meant = {found for value in wanted.values if (found := closest(value, known)) is not None}
    return f"; did you mean {min(meant)}?" if meant else ""
