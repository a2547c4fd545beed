"""Packs groups of replicas by counts and writes the best packing found into the partial plan (docs/scheduler.md).

Replicas are assigned to domains, merged into items and packed greedily. Linear and integer programs then look for a
cheaper packing of the same items, if this is to improve a first plan or reserved units are short.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType

from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.packing.buying import completed
from reservoir.core.solver.packing.disaggregation import Disaggregation
from reservoir.core.solver.packing.filling import fill_existing
from reservoir.core.solver.packing.item_types import (
    BinType,
    BinTypes,
    ItemType,
    build_item_types,
)
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
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.substitutes import Substitutes

# Programs are solved for no more item types than this: with more, the deadline leaves time for the certificate or for
# a better packing, not for both.
_ITEM_TYPES_MAX = 400
# How often an integer program is asked to spare reserved units. Each turn starts from the packing that the turn before
# found, which may cost less money than it was allowed to and so leave some for the next.
_SPARING_TURNS = 3


@dataclass(frozen=True, slots=True)
class Packed:
    """The groups that packing leaves to insertion, and those that it could not place as they were assigned.

    ``inserted`` are groups whose rules need each replica looked at by itself. ``short`` are the indices of groups for
    which the domains that they were assigned to had too little room.
    """

    inserted: list[Group]
    short: set[int]


@dataclass(frozen=True, slots=True)
class _PackingSearch:
    """What each step of the search for a good packing needs to know."""

    empty: Packing  # nothing is decided
    base: Packing  # only the room on nodes that exist is filled
    bin_types: BinTypes
    outlay: Callable[[Packing], Outlay]
    is_last: bool  # no group of the pass is less important than these
    is_quick: bool  # this is a first plan, not the improvement of one


# Branches: one loop over levels; each assigns groups to domains, packs them, and notes which are short.
def pack(insertion: Insertion, components: Sequence[Component]) -> Packed:
    """Place the groups of connected components, all of one priority, as far as packing by counts can.

    The caller inserts the replicas that are left over: those whose preferences cannot be kept, and those that rules
    about hosts or limits kept off the nodes.
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


def _pack_batches(
    insertion: Insertion, batches: Sequence[DomainBatch]
) -> list[DomainBatch]:
    """Write the best packing of the batches into the plan, and return the replicas that it leaves over."""
    state = insertion.state
    groups = [batch.relaxed.group for batch in batches]
    # Each of the next three steps may take long: a pass that is late stops between them and packs nothing.
    if state.is_out_of_time(*groups):
        return list(batches)
    item_types = build_item_types(batches)
    bin_types = BinTypes(state, item_types, state.catalogue.policy.overhead_atto_usd)
    if state.is_out_of_time(*groups):
        return list(batches)
    values = item_values(item_types, bin_types)
    if state.is_out_of_time(*groups):
        return list(batches)

    search = _started(insertion, batches, GreedyKnapsack(item_types, values), bin_types)
    greedy = completed(search.base, bin_types)
    state.is_improvable |= _is_improvable(greedy)
    cheapest = _cheaper(search, greedy)
    best = _with_fewer_units(search, cheapest)
    return _written(state, item_types, best)


def _started(
    insertion: Insertion,
    batches: Sequence[DomainBatch],
    knapsack: GreedyKnapsack,
    bin_types: BinTypes,
) -> _PackingSearch:
    """Fill the room on nodes that exist, from which every packing goes on, and say how packings are compared."""
    state = insertion.state
    policy = state.catalogue.policy
    filled_first, filled_after_units = _bins_with_room(
        state.bins, bin_types, insertion.candidates.substitutes
    )
    empty = Packing(
        knapsack,
        state.residual,
        policy.expired,
        floor=ItemFloor(policy.reserved_floor_percent, bin_types.buyable),
        bought=filled_after_units,
    )
    base = empty.fork()
    fill_existing(base, filled_first)
    priority = batches[0].relaxed.group.priority
    return _PackingSearch(
        empty,
        base,
        bin_types,
        outlay=partial(outlay_of_packing, overhead_atto_usd=policy.overhead_atto_usd),
        is_last=all(group.priority >= priority for group in state.groups),
        is_quick=not insertion.strategy.improves,
    )


def _bins_with_room(
    bins: Iterable[Bin], bin_types: BinTypes, substitutes: Substitutes
) -> tuple[list[tuple[Bin, int]], list[tuple[Bin, int]]]:
    """Return the bins to fill at once, and those to fill after reserved units, each with the items that it accepts.

    Nodes that this plan buys anyway come after the units: were they filled first, the units would be left to less
    important work.
    """
    at_once, after_units = list[tuple[Bin, int]](), list[tuple[Bin, int]]()
    for bin_ in bins:
        # Insertion checks, replica by replica, that minValues of a pool still leaves enough instance types.
        if bin_.option is not None and substitutes.concerns(bin_.option.entry):
            continue
        eligible = bin_types.eligibility.accepting(bin_.requirement_sets, bin_.labels)
        if not eligible:
            continue
        if bin_types.reserved and bin_.is_paid:
            after_units.append((bin_, eligible))
        else:
            at_once.append((bin_, eligible))
    return at_once, after_units


def _cheaper(search: _PackingSearch, greedy: Packing) -> Packing:
    """Return the cheapest of the greedy packing and those that linear and integer programs find."""
    if search.is_quick and not _are_units_short(greedy, search.bin_types):
        return greedy
    if search.empty.expired():
        return greedy
    best = greedy
    improved = _improved(search, greedy)
    if improved is not None:
        best = min(greedy, improved, key=search.outlay)
    exact = _cheapest_exactly(search, best)
    if exact is not None and _is_better(search, exact, best):
        best = exact
    return best


def _with_fewer_units(search: _PackingSearch, best: Packing) -> Packing:
    """Return a packing that leaves more, or scarcer, reserved units free for the same money; else the given one."""
    reserved = search.bin_types.reserved
    if not reserved or search.empty.expired():
        return best
    if search.is_quick:
        return with_units_spared(search.empty, best, reserved, search.outlay)
    best = with_units_spared(search.empty, best, reserved, search.outlay, _repacked)
    for _ in range(_SPARING_TURNS):
        spared = _spared_exactly(search, best)
        if spared is None or search.outlay(spared) >= search.outlay(best):
            break
        best = spared
    return best


def _written(
    state: PartialPlan, item_types: Sequence[ItemType], best: Packing
) -> list[DomainBatch]:
    """Put the replicas of the packing on nodes of the plan, and return those that it leaves over."""
    disaggregation = Disaggregation(state, item_types)
    for use in best.uses:
        disaggregation.write(use)
    left_over = disaggregation.left()
    state.commit()
    return left_over


def _is_improvable(packing: Packing) -> bool:
    """Whether a program could make the packing cheaper: it launches nodes, and its item types are not too many."""
    is_launched = any(use.bin_type is not None for use in packing.uses)
    return is_launched and len(packing.item_types) <= _ITEM_TYPES_MAX


def _are_units_short(greedy: Packing, bin_types: BinTypes) -> bool:
    """Whether the packing buys nodes for items that could run on reserved units.

    The greedy packing then cannot tell which items the units should go to.
    """
    bought = [mask_of(use.pattern) for use in greedy.uses if use.is_bought]
    return any(items & bin_types.reserved_for for items in bought)


def _improved(search: _PackingSearch, greedy: Packing) -> Packing | None:
    """Return the packing that a linear program makes of the greedy one, if it finds one.

    Unless these replicas are the last to be placed, the greedy packing's uses of reserved units stay: the program would
    use the fewest units, whichever it leaves to less important work, and would fill the nodes that this plan buys
    before the units.
    """
    if not _is_improvable(greedy):
        return None
    search.base.follow(greedy, on_units=not search.is_last)
    if not search.base.active:
        return None
    programs = _column_generation("improve")
    if programs is None:
        return None
    packing: Packing | None = programs.improved(
        search.base, greedy, search.bin_types, is_quick=search.is_quick
    )
    return packing


def _cheapest_exactly(search: _PackingSearch, best: Packing) -> Packing | None:
    """Return the packing of least cost that an integer program finds, if the problem is small."""
    if not _is_improvable(best):
        return None
    programs = _column_generation("whole_program")
    if programs is None:
        return None
    packing: Packing | None = programs.cheapest_exactly(
        search.empty,
        best,
        search.bin_types,
        is_last=search.is_last,
        is_quick=search.is_quick,
    )
    return packing


def _is_better(search: _PackingSearch, found: Packing, best: Packing) -> bool:
    """Whether a packing costs less; units count only where no order of pools stands above their worth."""
    found_outlay, best_outlay = search.outlay(found), search.outlay(best)
    if _are_pools_ordered(search.bin_types):
        return found_outlay.spending < best_outlay.spending
    return found_outlay < best_outlay


def _are_pools_ordered(bin_types: BinTypes) -> bool:
    """Whether an operator gave the pools of these reserved units different weights."""
    return len({bin_type.option.entry.tier for bin_type in bin_types.reserved}) > 1


def _repacked(base: Packing, greedy: Packing, units: Sequence[BinType]) -> Packing | None:
    """Return the packing that a linear program makes of the greedy one where a unit's price is what it is worth."""
    if not _is_improvable(greedy):
        return None
    programs = _column_generation("improve")
    if programs is None:
        return None
    packing: Packing | None = programs.packed_by_worth(base, greedy, units)
    return packing


def _spared_exactly(search: _PackingSearch, best: Packing) -> Packing | None:
    """Return a packing on fewer or less scarce units that an integer program finds for the same money, if any."""
    # An operator's order of pools stands above the worth of units.
    if _are_pools_ordered(search.bin_types) or not _is_improvable(best):
        return None
    programs = _column_generation("spared_program")
    if programs is None:
        return None
    packing: Packing | None = programs.spared_exactly(
        search.empty, best, search.bin_types.reserved
    )
    return packing


def _column_generation(module: str) -> ModuleType | None:
    """Import a module of column generation; return nothing where HiGHS is not installed.

    A plan without it is whole but has no certificate, by which its reader sees that it was not improved.
    """
    try:
        return import_module(f"reservoir.core.solver.column_generation.{module}")
    except ModuleNotFoundError:
        return None
