"""Who gets the reserved units.

When there is enough for everybody who could use them, the order of reservations decides which are used (and which stay
free for later work). When they are short, worth decides: units go to what is dearest elsewhere. Work that few
reservations accept is then preferred to work of equal worth that has more choice; how strongly depends on how short
units are, and so does which slots should choose first. So a few ways are tried, and the one that leaves the least to
pay for is kept.
"""

from collections.abc import Sequence
from operator import le

from shared.core.solver.packing.item_types import Candidate, Candidates, Shape
from shared.core.solver.packing.one_per_node import anchor_reserved, has_anchors
from shared.core.solver.packing.packing import Packing, Trial
from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.option_order import OrderKey, reserved_key

_TRIALS = (Trial(0.2), Trial(0.8), Trial(0.1, by_size=True))


def with_reserved(packing: Packing, candidates: Candidates, worth: Sequence[float]) -> list[Packing]:
    """Return packings with reserved units in use; which is the cheapest shows when the rest is bought."""
    found = [use_reserved(packing, candidates.reserved, worth, _TRIALS)]
    if has_anchors(packing):
        anchored = packing.fork(worth)
        anchor_reserved(anchored, [item for item, _ in _ordered(anchored, candidates.reserved)], candidates)
        found.append(use_reserved(anchored, candidates.reserved, worth, _TRIALS))
    return found


def use_reserved(
    packing: Packing, reserved: Sequence[Candidate], worth: Sequence[float], trials: Sequence[Trial]
) -> Packing:
    """Return the packing with reserved units in use; the given one is left as it was."""
    everyone = (1 << len(packing.shapes)) - 1
    ordered = _ordered(packing, reserved)
    access = _access(packing.shapes, reserved)
    best = packing
    if _may_suffice(packing, reserved, access):
        best = packing.fork(worth)
        best.use_reserved_in_order([item for item, _ in ordered], everyone)
        if not any(left and reach for left, reach in zip(best.left, access, strict=True)):
            return best
    dealt = []
    for trial in trials:
        dealt.append(_started(packing, worth, access, trial))
        dealt[-1].use_reserved(ordered, everyone)
    best = min(dealt, key=lambda item: round(item.left_worth(worth), 9))
    best.filler.reprice(worth)
    return best


def _started(packing: Packing, worth: Sequence[float], access: Sequence[float], trial: Trial) -> Packing:
    started = packing.fork(_preferring(worth, access, trial.strength))
    started.trial = trial
    return started


def _may_suffice(packing: Packing, reserved: Sequence[Candidate], access: Sequence[float]) -> bool:
    """Whether the free units have the CPU and memory of everybody who could use them."""
    units = {item.option.reservation.id: item.option for item in reserved if item.option.reservation is not None}
    for dimension in (0, 1):
        free = sum(packing.supply.units[name] * option.allocatable[dimension] for name, option in units.items())
        asked = sum(
            shape.request[dimension] * left
            for shape, left, reach in zip(packing.shapes, packing.left, access, strict=True)
            if reach
        )
        if asked > free:
            return False
    return True


def _ordered(packing: Packing, reserved: Sequence[Candidate]) -> list[tuple[Candidate, OrderKey]]:
    return sorted(((item, _order(item, packing)) for item in reserved), key=lambda pair: pair[1])


def _order(candidate: Candidate, packing: Packing) -> OrderKey:
    option = candidate.option
    assert option.reservation is not None
    units = packing.supply.units[option.reservation.id]
    return reserved_key(option, candidate.mask.bit_count(), units, tiny=False)


def _access(shapes: Sequence[Shape], reserved: Sequence[Candidate]) -> list[float]:
    """Return, by shape, how much reserved capacity it could run on, weighed by on-demand price."""
    access = [0.0] * len(shapes)
    for candidate in reserved:
        option = candidate.option
        assert option.reservation is not None
        capacity = float(option.reservation.free_units * max(1, option.on_demand_micro_usd))
        for index in iter_bits(candidate.mask):
            if all(map(le, shapes[index].request, option.allocatable)):
                access[index] += capacity
    return access


def _preferring(worth: Sequence[float], access: Sequence[float], strength: float) -> list[float]:
    most = max(access)
    return [value * (most / reach) ** strength if reach else value for value, reach in zip(worth, access, strict=True)]
