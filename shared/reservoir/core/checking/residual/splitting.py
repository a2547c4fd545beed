"""Whether the replicas of one paid node would fit on several free units."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.checking.residual.open_nodes import OpenNodes
from reservoir.core.scheduling_terms.resources import Resources

# More slots find more splits and take longer; beyond this a split may be missed, never invented.
_SLOTS_MAX: Final = 64


@dataclass(slots=True)
class _Slot:
    """One free unit while replicas are tried on it; ``unit`` is the index of its kind."""

    unit: int
    free: Resources
    carried: Counter[str] = field(default_factory=Counter)


def can_split(
    facts: Facts,
    host: Host,
    units: Sequence[OpenNodes],
    able: Mapping[str, frozenset[int]],
    free_units: Mapping[str, int],
) -> bool:
    """Whether first fit, largest first, puts the node's replicas on free units; a no may be wrong, a yes is not.

    ``able``: the indices of the units on which a workload's replicas may run; ``free_units`` by reservation id.
    """
    if facts.policy.reserved_floor_percent:
        return False
    slots = _slots(units, free_units)
    needs = {key: facts.needs(facts.workloads[key]) for key in host.placed}
    largest_first = sorted(host.placed, key=lambda key: (-needs[key]["cpu"], key))
    for key in largest_first:
        rest = host.placed[key]
        for slot in slots:
            if slot.unit not in able[key]:
                continue
            count = min(rest, copies_that_fit(slot.free, needs[key]))
            unit = units[slot.unit]
            together = (*slot.carried, key)
            if count and facts.together(unit.description, unit.undefined, together):
                slot.carried[key] += count
                slot.free -= needs[key] * count
                rest -= count
        if rest:
            return False
    return True


def copies_that_fit(free: Resources, needs: Resources) -> int:
    """Return how many times what a replica needs fits."""
    return min(free[name] // amount for name, amount in needs.items() if amount)


def _slots(units: Sequence[OpenNodes], free_units: Mapping[str, int]) -> list[_Slot]:
    """Return the first free units one by one, without units of pools that a limit may stop."""
    slots: list[_Slot] = []
    left = dict(free_units)
    for index, unit in enumerate(units):
        assert unit.key is not None
        assert unit.pool is not None
        if unit.pool.limits is not None:
            continue
        reservation_id = unit.key.reservation_id or ""
        while left[reservation_id] > 0 and len(slots) < _SLOTS_MAX:
            left[reservation_id] -= 1
            slots.append(_Slot(index, unit.free))
    return slots
