"""Replicas to be handed out, and what of several supplies is on each of some equal nodes."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, TypeVar

_Whose = TypeVar("_Whose")


class Supply(Generic[_Whose]):
    """Replicas to be handed out: ``left`` has (whose, how many), the first at the end."""

    def __init__(self, last_first: Iterable[tuple[_Whose, int]]) -> None:
        self.left = list(last_first)

    def take(self, count: int) -> tuple[tuple[_Whose, int], ...]:
        """Return whose the next ``count`` replicas are, as far as they reach."""
        found: list[tuple[_Whose, int]] = []
        while count and self.left:
            whose, left = self.left.pop()
            if left >= count:  # nearly always; spares the list
                if left > count:
                    self.left.append((whose, left - count))
                return (*found, (whose, count)) if found else ((whose, count),)
            count -= left
            found.append((whose, left))
        return tuple(found)


def distributed(
    supplies: Sequence[tuple[Supply[_Whose], int]], nodes: int
) -> Iterator[tuple[int, list[tuple[tuple[_Whose, int], ...]]]]:
    """Put so many of each supply on one node after the other; yield (number of equal nodes, what is on each)."""
    if nodes == 1:  # nearly always; spares the grouping
        yield 1, _for_one_node(supplies)
        return
    node_by_node = (_for_one_node(supplies) for _ in range(nodes))
    for found, equal in groupby(node_by_node):
        yield sum(1 for _ in equal), found


def _for_one_node(
    supplies: Sequence[tuple[Supply[_Whose], int]],
) -> list[tuple[tuple[_Whose, int], ...]]:
    return [supply.take(count) for supply, count in supplies]
