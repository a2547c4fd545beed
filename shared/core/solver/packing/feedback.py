"""Price feedback between passes: what ended up in poor company is worth more next time, so it is placed earlier."""

from collections.abc import Sequence
from math import exp, log

from shared.core.solver.packing.packing import Packing

_STEP = 0.7
_MOST = 0.3


def adjusted(worth: Sequence[float], packing: Packing) -> list[float]:
    """Return new worths: raised where a shape's nodes cost more than what they hold is worth, lowered elsewhere."""
    weighted = [0.0] * len(worth)
    placed = [0.0] * len(worth)
    for pattern in packing.patterns:
        candidate = pattern.candidate
        if candidate is None or candidate.option.reservation is not None:
            continue
        held = sum(worth[index] * count for index, count in pattern.content.items())
        poorness = log(candidate.price / held)
        for index, count in pattern.content.items():
            weighted[index] += count * pattern.count * poorness
            placed[index] += count * pattern.count
    everyone = sum(placed)
    mean = sum(weighted) / everyone if everyone else 0.0
    return [
        value * exp(max(-_MOST, min(_MOST, _STEP * (weighted[index] / placed[index] - mean))))
        if placed[index]
        else value
        for index, value in enumerate(worth)
    ]
