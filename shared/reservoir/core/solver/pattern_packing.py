"""Items are packed by counts, and what the best packing says becomes nodes (docs/scheduler.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.packing.buying import completed
from reservoir.core.solver.packing.disaggregation import Disaggregation
from reservoir.core.solver.packing.filling import fill_existing
from reservoir.core.solver.packing.item_types import BinType, BinTypes, build_item_types
from reservoir.core.solver.packing.item_values import item_values
from reservoir.core.solver.packing.knapsack import GreedyKnapsack
from reservoir.core.solver.packing.outlay import Outlay, outlay_of_packing
from reservoir.core.solver.packing.packing import ItemFloor, Packing
from reservoir.core.solver.packing.spared_units import with_units_spared
from reservoir.core.solver.problem.components import Component
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.vectors import mask_of
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.domain_assignment import (
    DomainBatch,
    DomainCosts,
    assign_domains,
)
from reservoir.core.solver.solution.substitutes import Substitutes

# with more, the deadline leaves time for the certificate or for a better packing, not for both
_ITEM_TYPES_MAX = 400
# Each turn starts from what the last one found, which may have left money for more.
_SPARING_TURNS = 3


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing could not do: groups to be inserted one by one, and groups assigned to domains without room."""

    inserted: list[Group]
    short: set[int]


# Branches: one loop over levels, and in it what is assigned, packed, and then left over.
def pack(insertion: Insertion, components: Sequence[Component]) -> Packed:
    """Place the groups of connected components, all of one priority, as far as counting can.

    Replicas that stay over (preferences that cannot be kept, rules about hosts, limits) are the caller's to place.
    """
    state = insertion.state
    domains = DomainCosts(state)
    inserted: list[Group] = []
    short: set[int] = set()
    level_count = 0
    for component in components:
        for group in component.groups:
            level_count = max(level_count, len(group.levels))
    for level in range(level_count):
        assigned, one_by_one = assign_domains(state, components, level, domains)
        inserted.extend(one_by_one)
        batches = [batch for batch in assigned if batch.count]
        if batches:
            for batch in _pack_batches(insertion, batches):
                insertion.place_batch(batch)
        for batch in batches:
            index = batch.relaxed.group.index
            if batch.pin is not None and state.remaining[index]:
                short.add(index)
    return Packed(inserted, short)


# Branches: questions about time between steps that follow one another.
def _pack_batches(
    insertion: Insertion, batches: Sequence[DomainBatch]
) -> list[DomainBatch]:
    """Pack batches and return what is left of them."""
    state = insertion.state
    groups = [batch.relaxed.group for batch in batches]
    if state.is_out_of_time(*groups):
        return list(batches)
    item_types = build_item_types(batches)
    policy = state.catalogue.policy
    bin_types = BinTypes(state, item_types, policy.overhead_atto_usd)
    if state.is_out_of_time(*groups):
        return list(batches)
    values = item_values(item_types, bin_types)
    if state.is_out_of_time(*groups):
        return list(batches)
    room, bought = _with_room(state.bins, bin_types, insertion.candidates.substitutes)
    floor = ItemFloor(policy.reserved_floor_percent, bin_types.buyable)
    base = Packing(
        GreedyKnapsack(item_types, values),
        state.residual,
        policy.expired,
        floor=floor,
        bought=bought,
    )
    empty = base.fork()
    fill_existing(base, room)
    best = completed(base, bin_types)
    improves = insertion.strategy.improves
    outlay = partial(outlay_of_packing, overhead_atto_usd=policy.overhead_atto_usd)
    state.is_improvable |= _is_improvable(best)
    if (improves or _are_units_short(best, bin_types)) and not policy.expired():
        is_last = all(
            group.priority >= batches[0].relaxed.group.priority for group in state.groups
        )
        improved = _improved(base, best, bin_types, is_last=is_last, is_quick=not improves)
        best = best if improved is None else min(best, improved, key=outlay)
        cheapest = _cheapest_exactly(
            empty, best, bin_types, is_last=is_last, is_quick=not improves
        )
        if cheapest is not None and _is_better(outlay(cheapest), outlay(best), bin_types):
            best = cheapest
    if bin_types.reserved and not policy.expired():
        repack = [_repacked] if improves else []
        best = with_units_spared(empty, best, bin_types.reserved, outlay, *repack)
        for _ in range(_SPARING_TURNS if improves else 0):
            spared = _spared_exactly(empty, best, bin_types)
            if spared is None or outlay(spared) >= outlay(best):
                break
            best = spared
    disaggregation = Disaggregation(state, item_types)
    for use in best.uses:
        disaggregation.write(use)
    leftovers = disaggregation.left()
    state.commit()
    return leftovers


def _with_room(
    bins: Iterable[Bin], bin_types: BinTypes, substitutes: Substitutes
) -> tuple[list[tuple[Bin, int]], list[tuple[Bin, int]]]:
    """Return the bins with whom they accept: those to fill at once, and those being bought, if units come first.

    Were those filled first, reserved units would be left to the less important.
    """
    room, bought = list[tuple[Bin, int]](), list[tuple[Bin, int]]()
    for bin_ in bins:
        # Whether one more replica leaves enough types to choose from is looked at replica by replica.
        if bin_.option is not None and substitutes.concerns(bin_.option.entry):
            continue
        eligible = bin_types.eligibility.accepting(bin_.requirement_sets, bin_.labels)
        if not eligible:
            continue
        if bin_types.reserved and bin_.is_paid:
            bought.append((bin_, eligible))
        else:
            room.append((bin_, eligible))
    return room, bought


def _is_improvable(greedy: Packing) -> bool:
    """Whether a program can be asked about the packing: about nodes to be launched, and not about too many items."""
    is_launched = any(use.bin_type is not None for use in greedy.uses)
    return is_launched and len(greedy.item_types) <= _ITEM_TYPES_MAX


def _are_units_short(greedy: Packing, bin_types: BinTypes) -> bool:
    """Whether nodes are bought for work that could run on reserved units: who gets those is more than greed can say."""
    bought = [mask_of(use.pattern) for use in greedy.uses if use.is_bought]
    return any(items & bin_types.reserved_for for items in bought)


def _repacked(base: Packing, greedy: Packing, units: Sequence[BinType]) -> Packing | None:
    """Return the packing that a linear program makes of the greedy one, on units that cost what they are worth."""
    if not _is_improvable(greedy):
        return None
    try:
        column_generation = import_module("reservoir.core.solver.column_generation.improve")
    except ModuleNotFoundError:
        return None
    packing: Packing | None = column_generation.packed_by_worth(base, greedy, units)
    return packing


def _cheapest_exactly(
    empty: Packing, best: Packing, bin_types: BinTypes, *, is_last: bool, is_quick: bool
) -> Packing | None:
    """Return the packing that an integer program finds for the least money, where the problem is small."""
    if not _is_improvable(best):
        return None
    try:
        program = import_module("reservoir.core.solver.column_generation.whole_program")
    except ModuleNotFoundError:
        return None
    packing: Packing | None = program.cheapest_exactly(
        empty, best, bin_types, is_last=is_last, is_quick=is_quick
    )
    return packing


def _is_better(found: Outlay, best: Outlay, bin_types: BinTypes) -> bool:
    """Whether it costs less; where an operator orders pools, that stands above the worth of units."""
    if _are_pools_ordered(bin_types):
        return found.spending < best.spending
    return found < best


def _are_pools_ordered(bin_types: BinTypes) -> bool:
    """Whether units are of pools of several weights."""
    return len({bin_type.option.entry.tier for bin_type in bin_types.reserved}) > 1


def _spared_exactly(empty: Packing, best: Packing, bin_types: BinTypes) -> Packing | None:
    """Return the packing with fewer units that an integer program finds for the same money, if there is one."""
    # An operator's order of pools stands above the worth of units.
    if _are_pools_ordered(bin_types) or not _is_improvable(best):
        return None
    try:
        program = import_module("reservoir.core.solver.column_generation.spared_program")
    except ModuleNotFoundError:
        return None
    packing: Packing | None = program.spared_exactly(empty, best, bin_types.reserved)
    return packing


def _improved(
    base: Packing, greedy: Packing, bin_types: BinTypes, *, is_last: bool, is_quick: bool
) -> Packing | None:
    """Return the packing that a linear program makes of the greedy one, if HiGHS is there and finds one.

    Where no node was found for any of them there is nothing to make better, and nothing else would be found.

    Unless these replicas are the last, who has reserved units stays: the program would take the fewest units, whatever
    they leave to the less important, and fill what is bought before it.
    """
    if not _is_improvable(greedy):
        return None
    base.follow(greedy, on_units=not is_last)
    if not base.active:
        return None
    try:
        column_generation = import_module("reservoir.core.solver.column_generation.improve")
    except ModuleNotFoundError:
        return None  # the plan says by its missing certificate that it was not improved
    packing: Packing | None = column_generation.improved(
        base, greedy, bin_types, is_quick=is_quick
    )
    return packing
