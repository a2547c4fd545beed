"""Why a pool sells nothing at all: which requirement of its own cannot be met, or what its class cannot reach."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain

from reservoir.core.capacity.offerings import OFFERING_LABELS, has_image
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_TYPE,
    RESERVATION_LABELS,
    closest,
)
from reservoir.core.scheduling_terms.requirement import Requirement
from reservoir.core.solver.problem.catalogue import Entry, OfferedPlace, accepts

OFFERING_KEYS = OFFERING_LABELS | RESERVATION_LABELS


def no_type(snapshot: Snapshot, entry: Entry) -> str:
    """Say what filtered out every instance type: a requirement that none has, or the class's images."""
    requirements = entry.pool.requirements
    told = f"the requirements of pool {entry.pool.name} filtered out all available instance types"
    for key, wanted in sorted(requirements.items()):
        having = [
            item.requirements[key]
            for item in snapshot.instance_types
            if key in item.requirements
        ]
        if having and not any(each.has_intersection(wanted) for each in having):
            known = set(chain.from_iterable(each.values for each in having))
            return f"{told}: none has {wanted}{hint(wanted, known)}"
    return _no_image(snapshot, entry) or told


def _no_image(snapshot: Snapshot, entry: Entry) -> str | None:
    requirements = entry.pool.requirements
    meeting = [
        item for item in snapshot.instance_types if requirements.meets(item.requirements)
    ]
    if not meeting or any(has_image(entry.node_class, item) for item in meeting):
        return None
    return f"class {entry.node_class.name} has no image that an instance type of pool {entry.pool.name} runs"


def sells_nothing(snapshot: Snapshot, entry: Entry, places: Sequence[OfferedPlace]) -> str:
    """Say why none of the places where the pool's types are sold or reserved is one for it."""
    wanted = [
        item
        for key, item in sorted(entry.pool.requirements.items())
        if key in OFFERING_KEYS
    ]
    lost = out_of_reach(snapshot, entry.node_class, entry.types, wanted)
    return lost or _nothing_meets(entry, wanted, [place.labels() for place in places])


def _nothing_meets(
    entry: Entry, wanted: Sequence[Requirement], sold: Sequence[Mapping[str, str]]
) -> str:
    """Say which requirement rules out all that is sold on the pool's markets; or that nothing is sold there."""
    name, markets = entry.pool.name, entry.pool.requirements.get(CAPACITY_TYPE)
    if markets is not None:
        sold = [labels for labels in sold if accepts(labels, (markets,))]
    if sold:
        told = "; ".join(
            _not_had(item, sold, markets) for item in wanted if not _is_met(item, sold)
        )
        together = "no type meets all that it requires together, although each requirement is met by some"
        return f"the requirements of pool {name} filtered out all available instance types: {told or together}"
    if markets is not None and markets.values == frozenset({CapacityType.RESERVED.value}):
        selects = _no_reservation_of(entry.node_class)
        return f"pool {name} uses reserved capacity only, and {selects}"
    return f"pool {name} sells none of its instance types on any market that it allows"


def _no_reservation_of(node_class: NodeClass) -> str:
    """Say that a class selects no reservation, and which of those that it names cannot be used."""
    none = f"class {node_class.name} selects no reservation of its instance types"
    missing = node_class.missing_reservations(node_class.status.reservation_ids)
    if not missing:
        return none
    named = ", ".join(missing)
    return f"{none} ({named}: gone, not shared, or of another platform or tenancy)"


def out_of_reach(
    snapshot: Snapshot,
    node_class: NodeClass,
    types: Iterable[InstanceType],
    wanted: Iterable[Requirement],
) -> str | None:
    """Say why the class can launch into none of the reservations that it selects and that would do; None: it can."""
    wanted, names = list(wanted), {kind.name for kind in types}
    meeting = [
        item
        for item in _selected(snapshot, node_class)
        if item.instance_type in names and accepts(OfferedPlace.of(item).labels(), wanted)
    ]
    if not meeting or any(node_class.may_use(item) for item in meeting):
        return None
    return _not_usable(node_class, min(meeting, key=lambda item: item.id))


def _selected(snapshot: Snapshot, node_class: NodeClass) -> Iterator[CapacityReservation]:
    selected = frozenset(node_class.status.reservation_ids)
    return (item for item in snapshot.reservations if item.id in selected)


def _not_usable(node_class: NodeClass, reservation: CapacityReservation) -> str:
    if not node_class.has_subnet_in(reservation.zone):
        return f"class {node_class.name} has no subnet in {reservation.zone}, where {reservation.id} is"
    theirs, ours = (
        f"{it.platform} with {it.tenancy} tenancy" for it in (reservation, node_class)
    )
    return f"{reservation.id} is for {theirs}, and class {node_class.name} launches {ours}"


def _is_met(wanted: Requirement, sold: Iterable[Mapping[str, str]]) -> bool:
    return any(accepts(labels, (wanted,)) for labels in sold)


def _not_had(
    wanted: Requirement, sold: Iterable[Mapping[str, str]], markets: Requirement | None
) -> str:
    known = {labels[wanted.key] for labels in sold if wanted.key in labels}
    on = "" if markets is None else f" as {' or '.join(sorted(markets.values))}"
    return f"none has {wanted}{on} (there is {', '.join(sorted(known)) or 'none'}{hint(wanted, known)})"


def hint(wanted: Requirement, known: Set[str]) -> str:
    """Return the value that was probably meant by one that nothing has."""
    meant = {
        found for value in wanted.values if (found := closest(value, known)) is not None
    }
    return f"; did you mean {min(meant)}?" if meant else ""
