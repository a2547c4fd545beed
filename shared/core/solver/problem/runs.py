"""Runs of equal nodes: what several sources have for them, side by side."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_Part = TypeVar("_Part")


def in_step(sources: Sequence[Iterator[tuple[int, _Part]]], nodes: int) -> Iterator[tuple[int, list[_Part]]]:
    """Yield (number of equal nodes, the part of each source) until so many nodes are served.

    Each source yields (number of equal nodes, its part on each), for at least as many nodes.
    """
    heads = [next(source) for source in sources]
    while nodes:
        equal = min(count for count, _ in heads)
        yield equal, [part for _, part in heads]
        nodes -= equal
        for position, (count, part) in enumerate(heads):
            if count > equal:
                heads[position] = (count - equal, part)
            elif nodes:
                heads[position] = next(sources[position])
