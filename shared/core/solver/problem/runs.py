"""Runs of equal nodes: what one source has for them, and what several have, side by side."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

_Part = TypeVar("_Part")
_Whose = TypeVar("_Whose")


class Supply(Generic[_Whose]):
    """Replicas to be handed out: ``left`` has (whose, how many), the first at the end."""

    __slots__ = ("left",)

    def __init__(self, last_first: Iterable[tuple[_Whose, int]]) -> None:
        self.left = list(last_first)

    def take(self, count: int) -> tuple[tuple[_Whose, int], ...]:
        """Return whose the next ``count`` replicas are, as far as they reach."""
        found: list[tuple[_Whose, int]] = []
        while count and self.left:
            whose, left = self.left.pop()
            if left >= count:  # mostly
                if left > count:
                    self.left.append((whose, left - count))
                return (*found, (whose, count)) if found else ((whose, count),)
            count -= left
            found.append((whose, left))
        return tuple(found)

    def runs(self, per_node: int, nodes: int) -> Iterator[tuple[int, tuple[tuple[_Whose, int], ...]]]:
        """Yield (number of equal nodes, whose replicas are on each) until ``nodes`` are served."""
        while nodes:
            whose, left = self.left[-1]
            whole = min(nodes, left // per_node)
            if whole:
                self.take(whole * per_node)  # before the yield: whoever asks may not come back
                nodes -= whole
                yield whole, ((whose, per_node),)
            else:
                nodes -= 1
                yield 1, self.take(per_node)


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
