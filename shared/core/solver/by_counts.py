"""The fast path: shapes are packed by counts in a few passes, and the best pass becomes nodes (docs/scheduler.md)."""

from collections.abc import Sequence

from shared.core.solver.expansion import Expansion
from shared.core.solver.feedback import adjusted
from shared.core.solver.general import Placer
from shared.core.solver.groups import Group
from shared.core.solver.lots import DomainCosts, Lot, deal
from shared.core.solver.packing import Packing
from shared.core.solver.preference import overhead_atto_usd
from shared.core.solver.reserved import use_reserved
from shared.core.solver.shapes import Candidates, Shape, build_shapes
from shared.core.solver.state import Bin, State
from shared.core.solver.worth import add_slot_worth, worths


def place_by_counts(placer: Placer, groups: Sequence[Group]) -> list[Group]:
    """Place the groups as far as counting can; return those that need the general path from the start.

    Replicas that stay over (preferences that cannot be kept, rules about hosts, limits) are the caller's to place.
    """
    state = placer.state
    domains = DomainCosts(state)
    general: list[Group] = []
    for level in range(max((len(group.levels) for group in groups), default=0)):
        dealt = deal(state, groups, level, domains)
        general.extend(dealt.general)
        lots = [lot for lot in dealt.lots if lot.count]
        if lots:
            for lot in _place_lots(state, lots):
                placer.place_lot(lot)
    return general


def _place_lots(state: State, lots: Sequence[Lot]) -> list[Lot]:
    """Pack lots and return what is left of them."""
    shapes = build_shapes(lots)
    market = state.market
    candidates = Candidates(state, shapes, overhead_atto_usd(market.policy))
    worth = worths(shapes, candidates.paid, candidates.reserved, candidates.eligibility)
    add_slot_worth(worth, shapes, candidates.unthinned)
    bins = [(bin_, candidates.eligibility.accepting(bin_.alternatives, bin_.labels)) for bin_ in state.bins]
    best: Packing | None = None
    for number in range(max(1, market.policy.iterations)):
        packing = _pass(state, shapes, worth, candidates, [item for item in bins if item[1]])
        if best is None or _quality(packing) < _quality(best):
            best = packing
        if market.policy.expired() or number + 1 == market.policy.iterations:
            break
        worth = adjusted(worth, packing)
    assert best is not None
    expansion = Expansion(state, shapes)
    for pattern in best.patterns:
        expansion.write(pattern)
    state.commit()
    return list(expansion.leftovers())


def _quality(packing: Packing) -> tuple[float, float]:
    """Sort passes: the least left over, then the cheapest."""
    left = sum(packing.left)
    return (left, packing.cost())


def _pass(
    state: State,
    shapes: Sequence[Shape],
    worth: Sequence[float],
    candidates: Candidates,
    bins: Sequence[tuple[Bin, int]],
) -> Packing:
    packing = Packing(shapes, worth, state.supply, state.market.policy.expired)
    everyone = (1 << len(shapes)) - 1
    packing.fill_existing(bins, everyone)
    if candidates.reserved and packing.active:
        packing = use_reserved(packing, candidates.reserved, worth)
    if packing.active:
        packing.open_anchored(candidates, everyone)
        packing.buy(candidates, everyone)
        packing.fit_sizes(candidates)
    return packing
