"""The fast path: shapes are packed by counts, and what the best packing says becomes nodes (docs/scheduler.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module

from shared.core.solver.insertion.insert import Placer
from shared.core.solver.packing.buying import buy_rest
from shared.core.solver.packing.disaggregation import Expansion
from shared.core.solver.packing.item_types import Candidates, build_shapes
from shared.core.solver.packing.item_values import add_slot_worth, worths
from shared.core.solver.packing.packing import Packing
from shared.core.solver.packing.reserved_units import with_reserved
from shared.core.solver.problem.components import Part
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.min_values import MinValues
from shared.core.solver.problem.option_order import overhead_atto_usd
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.domain_assignment import DomainCosts, Lot, deal


@dataclass(frozen=True, slots=True)
class Counted:
    """What counting could not do: groups that need the general path, and groups dealt to domains without room."""

    general: list[Group]
    short: set[int]


def place_by_counts(placer: Placer, parts: Sequence[Part]) -> Counted:
    """Place the groups of connected parts, all of one priority, as far as counting can.

    Replicas that stay over (preferences that cannot be kept, rules about hosts, limits) are the caller's to place.
    """
    state = placer.state
    domains = DomainCosts(state)
    general: list[Group] = []
    short: set[int] = set()
    for level in range(max((len(kind.levels) for part in parts for kind in part.kinds), default=0)):
        dealt = deal(state, parts, level, domains)
        general.extend(dealt.general)
        lots = [lot for lot in dealt.lots if lot.count]
        if lots:
            for lot in _place_lots(placer, lots):
                placer.place_lot(lot)
        short.update(lot.group.index for lot in lots if lot.pin is not None and state.remaining[lot.group.index])
    return Counted(general, short)


def _place_lots(placer: Placer, lots: Sequence[Lot]) -> list[Lot]:
    """Pack lots and return what is left of them."""
    state = placer.state
    shapes = build_shapes(lots)
    market = state.market
    policy = market.policy
    candidates = Candidates(state, shapes, overhead_atto_usd(policy))
    worth = worths(shapes, candidates.paid, candidates.reserved, candidates.eligibility)
    add_slot_worth(worth, shapes, candidates.unthinned)
    base = Packing(shapes, worth, state.supply, policy.expired)
    base.floor_percent, base.buyable = policy.reserved_floor_percent, candidates.buyable
    _fill_room(base, state.bins, candidates, placer.choices.min_values)
    best = _greedy(base, worth, candidates)
    if policy.with_certificate and not policy.expired():
        is_last = all(group.priority >= lots[0].group.priority for group in state.groups)
        polished = _polished(base, best, worth, candidates, is_last=is_last)
        best = best if polished is None else min(best, polished, key=_quality)
    expansion = Expansion(state, shapes)
    for pattern in best.patterns:
        expansion.write(pattern)
    leftovers = expansion.finish()
    state.commit()
    return leftovers


def _fill_room(base: Packing, bins: Iterable[Bin], candidates: Candidates, min_values: MinValues) -> None:
    """Fill the room that there is, but on nodes that are being bought only once reserved units are in use.

    Otherwise those who fit there would leave units to the less important.
    """
    room, bought = list[tuple[Bin, int]](), list[tuple[Bin, int]]()
    for bin_ in bins:
        # Whether one more replica leaves enough types to choose from is looked at replica by replica.
        if bin_.option is None or not min_values.concerns(bin_.option.entry):
            mask = candidates.eligibility.accepting(bin_.alternatives, bin_.labels)
            if mask:
                (bought if candidates.reserved and bin_.is_paid else room).append((bin_, mask))
    base.fill_existing(room, (1 << len(base.shapes)) - 1)
    base.bought = bought


def _greedy(base: Packing, worth: Sequence[float], candidates: Candidates) -> Packing:
    """Use reserved units, then buy; where units can be used in several ways, the one after which least is bought."""
    packing = base.fork(worth)
    variants = [packing]
    if candidates.reserved and packing.active:
        variants = with_reserved(packing, candidates, worth)
    for variant in variants:
        buy_rest(variant, candidates)
    return min(variants, key=_quality)


def _polished(
    base: Packing, greedy: Packing, worth: Sequence[float], candidates: Candidates, *, is_last: bool
) -> Packing | None:
    """Return the packing that a linear program makes of the greedy one, if HiGHS is there and finds one.

    Unless these replicas are the last, who has reserved units stays: the program would take the fewest units, whatever
    they leave to the less important, and fill what is bought before it.
    """
    base.follow(greedy, on_units=not is_last)
    if not base.active:
        return None
    try:
        patterns = import_module("shared.core.solver.column_generation.restricted_master")
    except ModuleNotFoundError:
        return None  # the plan says by its missing certificate that it was not polished
    packing: Packing | None = patterns.combined(base, greedy, worth, candidates)
    return packing


def _quality(packing: Packing) -> tuple[int, float]:
    """Sort packings: the least left over, then the cheapest."""
    return (sum(packing.left), packing.cost())
