"""Emptying nodes that are paid for: what is on them may have room elsewhere (rule 3, and tails of the packing).

Packing by counts closes nodes one kind at a time, so a last node may hold a few replicas that earlier ones, or units
left free, could have taken. Each such node is emptied on trial; if everything finds a place that costs nothing more,
the node is not launched.
"""

from collections.abc import Sequence

from shared.core.solver.alternatives import counted_keys
from shared.core.solver.general import Placer
from shared.core.solver.market import Option
from shared.core.solver.state import Bin

# Trials look at every node, so their number is bounded by work, not by share.
_LOOKS_MAX = 20_000
_TRIALS_MIN = 8


def empty_paid_nodes(placer: Placer) -> None:
    """Do without paid nodes whose replicas fit elsewhere, the emptiest first."""
    state = placer.state
    paid = [bin_ for bin_ in state.bins if bin_.option is not None and bin_.option.reservation is None]
    trials = max(_TRIALS_MIN, _LOOKS_MAX // max(1, len(state.bins)))
    for bin_ in sorted(paid, key=lambda item: (_fullness(item), item.uid))[:trials]:
        while bin_.contents and not state.market.policy.expired():
            mark = state.mark()
            if not _empty(placer, state.split_bin(bin_, 1)):
                state.undo(mark)
                break
            if bin_ not in state.bins:
                break


def _fullness(bin_: Bin) -> float:
    assert bin_.option is not None
    sizes = zip(bin_.free, bin_.option.allocatable, strict=True)
    return max((1 - free / whole for free, whole in sizes if whole), default=0.0)


def _empty(placer: Placer, victim: Bin) -> bool:
    state = placer.state
    groups = [(state.groups[index], count) for index, count in victim.contents.items()]
    if any(group.workload.gang is not None or group.is_price_capped for group, _ in groups):
        return False  # their nodes were chosen together
    # Leaving a domain could make it the emptiest of a spread, so replicas stay in the domains that were counted.
    kept = {key: victim.labels.get(key) for key in counted_keys(state, victim)}
    levels: Sequence[int] = [victim.levels[group.index] for group, _ in groups]

    def admits(place: Bin | Option) -> bool:
        if place is victim or (isinstance(place, Option) and place.reservation is None):
            return False
        labels = place.labels if isinstance(place, Bin) else state.labels_of(place)
        return all(labels.get(key) == domain for key, domain in kept.items())

    for (group, count), level in zip(groups, levels, strict=True):
        state.place(victim, group, -count, level)
    for (group, count), level in zip(groups, levels, strict=True):
        before = state.remaining[group.index]
        placer.place_at(group, level, admits, count)
        if before - state.remaining[group.index] < count:
            return False
    state.close_bin(victim)
    return True
