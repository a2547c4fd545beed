"""Whether the replicas of one paid node would fit on several free units."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.checking.residual.open_nodes import OpenNodes
from reservoir.core.scheduling_terms.resources import Resources

_SLOTS_MAX: Final = 64  # more of them make a yes likelier, and take longer


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
    for key in sorted(
        host.placed, key=lambda key: (-facts.needs(facts.workloads[key])["cpu"], key)
    ):
        needs, rest = facts.needs(facts.workloads[key]), host.placed[key]
        for slot in slots:
            unit = units[slot.unit]
            count = (
                min(rest, copies_that_fit(slot.free, needs))
                if slot.unit in able[key]
                else 0
            )
            if count and facts.together(
                unit.description, unit.undefined, (*slot.carried, key)
            ):
                slot.carried[key] += count
                slot.free -= needs * count
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
        reservation_id = unit.key.reservation_id or ""
        while (
            unit.pool.limits is None
            and left[reservation_id] > 0
            and len(slots) < _SLOTS_MAX
        ):
            left[reservation_id] -= 1
            slots.append(_Slot(index, unit.free))
    return slots
