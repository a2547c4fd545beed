"""Nodes for *anchors*: replicas that need a node each (host rules), every node topped up with what may share it.

How many such nodes there must be is settled by the rules, so what counts is which of them are reserved, how small the
others can be, and how little of them is lost.
"""

from collections.abc import Sequence
from math import inf

from shared.core.solver.packing.item_types import Candidate, Candidates, Shape
from shared.core.solver.packing.knapsack import Contents
from shared.core.solver.packing.packing import Packing
from shared.core.solver.problem.bits import iter_bits

# So many prices are tried for a node that one replica opens.
_SIZES = 7
_STEP = 1.25
_SMALLER_FIRST = 0.05


_Holder = tuple[Candidate, int]
_Filled = dict[tuple[int, int], tuple[float, Contents]]  # worth and content by option and share of inexact rules


def has_anchors(packing: Packing) -> bool:
    """Whether some replicas that are left need a node each."""
    return any(_is_exact(shape) and packing.left[shape.index] for shape in packing.shapes)


def _is_exact(shape: Shape) -> bool:
    return shape.host is not None and shape.host.is_exact and shape.host.cap == 1


def _is_anchor(shape: Shape) -> bool:
    return shape.host is not None and (shape.host.cap == 1 or not shape.host.is_exact)


class _Waiting:
    """Who is left, as far as it decides which nodes anchors get: counted once, then kept up by :meth:`took`."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        inexact = [shape for shape in packing.shapes if shape.host is not None and not shape.host.is_exact]
        self._numbers = {shape.host.number for shape in inexact if shape.host is not None}
        self._is_exact = {shape.index for shape in packing.shapes if _is_exact(shape)}
        self._is_inexact = {shape.index for shape in inexact}
        self.anchors = sum([packing.left[index] for index in self._is_exact])  # nodes that anti-affine ones need
        self._carriers = sum([packing.left[index] for index in self._is_inexact])
        self._among: dict[int, float] = {}

    def among(self, takers: int) -> float:
        """How much could share a node with these takers, carriers of host rules counted more."""
        known = self._among.get(takers)
        if known is None:
            urgency, left = self._packing.filler.urgency, self._packing.left
            known = self._among[takers] = sum(
                [urgency[index] * left[index] for index in iter_bits(takers & self._packing.active)]
            )
        return known

    def took(self, content: Contents, nodes: int) -> None:
        """Do without what was put on so many nodes."""
        urgency = self._packing.filler.urgency
        for index, copies in content:
            count = copies * nodes
            if index in self._is_exact:
                self.anchors -= count
            elif index in self._is_inexact:
                self._carriers -= count
            for takers in self._among:
                if takers >> index & 1:
                    self._among[takers] -= urgency[index] * count

    def share_out(self, nodes: int) -> int:
        """Set the caps of inexact rules, given how many nodes will be opened; return the share of each node.

        No more of their carriers than that share a node with each anti-affine replica.
        """
        share = max(1, -(-self._carriers // nodes) if nodes else 1)
        self._packing.filler.host_caps.update(dict.fromkeys(self._numbers, share))
        return share


# -- reserved


def anchor_reserved(packing: Packing, reserved: Sequence[Candidate], candidates: Candidates) -> None:
    """Give a reserved unit each to the anchors that are dearest elsewhere, and fill it with what may share it.

    For worlds in which units are fewer than nodes that there must be: each unit without an anchor is a node bought.
    """
    units = {item.option.reservation.id for item in reserved if item.option.reservation is not None}
    free = sum(packing.supply.units[name] for name in units)
    waiting = _Waiting(packing)
    waiting.share_out(min(free, waiting.anchors))
    holders = _holders(candidates)
    prices = {shape.index: _price_elsewhere(shape, holders) for shape in packing.shapes if _is_exact(shape)}
    dearest_first = sorted(prices, key=lambda index: (-prices[index], index))
    for candidate in reserved:
        size = candidate.option.allocatable
        takers = candidate.mask & candidates.eligibility.fitting(size)
        while units_left := packing.supply.nodes_left(candidate.option):
            fitting = takers & packing.active
            anchor = next((index for index in dearest_first if fitting >> index & 1), None)
            if anchor is None:
                break
            _, content = packing.filler.fill(size, candidate.mask, ((anchor, 1),))
            packing.apply(candidate, content, min(units_left, packing.repeats(content)))


def _price_elsewhere(shape: Shape, holders: Sequence[_Holder]) -> float:
    own = 1 << shape.index
    return next((item.price for item, takers in holders if takers & own), inf)


def _holders(candidates: Candidates) -> list[_Holder]:
    """Return what can be bought, cheapest first, with the shapes of which one replica fits there."""
    fitting = candidates.eligibility.fitting
    return [(item, item.mask & fitting(item.option.allocatable)) for item in candidates.unthinned]


# -- paid


def open_anchored(packing: Packing, candidates: Candidates) -> None:
    """Buy nodes for replicas that need a node each, every one topped up with what may share it."""
    ordered = sorted(
        packing.shapes,
        key=lambda item: (item.host is None or not item.host.is_exact, [-amount for amount in item.request]),
    )
    holders, waiting = _holders(candidates), _Waiting(packing)
    for shape in ordered:
        if _is_anchor(shape) and packing.left[shape.index]:
            _open_for(packing, shape, _families(shape, holders), waiting)


def _open_for(packing: Packing, shape: Shape, families: list[list[Candidate]], waiting: _Waiting) -> None:
    """Open nodes for every replica of one shape. ``families``: candidate sizes by who else may run there."""
    filled: _Filled = {}
    while packing.left[shape.index] > 0 and families and not packing.expired():
        share = waiting.share_out(waiting.anchors)
        family = max(families, key=lambda sizes: waiting.among(sizes[0].mask))
        best = _best(packing, shape, family, filled, share)
        if best is None:
            families.remove(family)
            continue
        candidate, content = best
        wanted = max(1, -(-packing.left[shape.index] // 2))
        waiting.took(content, packing.repeat(candidate, content, wanted))


def _best(
    packing: Packing, shape: Shape, family: Sequence[Candidate], filled: _Filled, share: int
) -> tuple[Candidate, Contents] | None:
    """Return the size that loses least with one replica of the shape and what else it would hold, and that content.

    The node must be opened anyway, so its loss counts, not its worth for money. What was ``filled`` before is as good
    as then while demand lasts for it: there is less to choose from since, and not more. For the same reason a size is
    filled anew only if it would be chosen as it was then.
    """
    open_sizes = [candidate for candidate in family if packing.supply.nodes_left(candidate.option)]
    least = _SMALLER_FIRST * family[0].price
    while open_sizes:
        chosen, score = open_sizes[0], -inf
        for candidate in open_sizes:
            about = (candidate.option.index, share)
            if about not in filled:
                filled[about] = packing.filler.fill(candidate.option.allocatable, candidate.mask, ((shape.index, 1),))
            loss = filled[about][0] - candidate.price
            if loss > score + least:
                chosen, score = candidate, loss
        about = (chosen.option.index, share)
        if packing.repeats(filled[about][1]):
            return chosen, filled[about][1]
        del filled[about]
    return None


def _families(shape: Shape, holders: Sequence[_Holder]) -> list[list[Candidate]]:
    """Return candidates that hold the shape, a few sizes per kind of takers; only kinds that are about as cheap."""
    families: dict[int, list[Candidate]] = {}
    own, dearest = 1 << shape.index, inf  # the dearest that opens a family
    complete = 0
    for item, takers in holders:
        if item.price > dearest and complete == len(families):
            break
        if not takers & own:
            continue
        family = families.get(item.mask)
        if family is None:
            if item.price <= dearest:
                dearest = min(dearest, item.price * _STEP)
                families[item.mask] = [item]
        elif len(family) < 3 or (len(family) < _SIZES and item.price >= family[-1].price * _STEP):
            family.append(item)
            complete += len(family) == _SIZES
    return list(families.values())
