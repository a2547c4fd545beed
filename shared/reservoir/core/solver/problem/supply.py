"""Supplies of replicas by owner, and how they are distributed over equal nodes.

A supply is a queue of the replicas of several owners (workloads, batches), from which nodes take theirs in turn.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, TypeVar

_Owner = TypeVar("_Owner")


class Supply(Generic[_Owner]):
    """Replicas of several owners: ``left`` has (owner, number of replicas), the next owner at the end."""

    def __init__(self, last_first: Iterable[tuple[_Owner, int]]) -> None:
        self.left = list(last_first)

    def take(self, count: int) -> tuple[tuple[_Owner, int], ...]:
        """Take the next ``count`` replicas, or all that are left if they are fewer; return (owner, number)."""
        found: list[tuple[_Owner, int]] = []
        while count and self.left:
            owner, left = self.left.pop()
            if left >= count:  # nearly always; saves making a list
                if left > count:
                    self.left.append((owner, left - count))
                return (*found, (owner, count)) if found else ((owner, count),)
            count -= left
            found.append((owner, left))
        return tuple(found)


def distributed(
    supplies: Sequence[tuple[Supply[_Owner], int]], nodes: int
) -> Iterator[tuple[int, list[tuple[tuple[_Owner, int], ...]]]]:
    """Put replicas on ``nodes`` nodes, one after the other; ``supplies`` says how many of each supply go onto a node.

    Yield (number of equal nodes in a row, the replicas on each of them, by supply and owner).
    """
    if nodes == 1:  # nearly always; saves the grouping
        yield 1, _for_one_node(supplies)
        return
    node_by_node = (_for_one_node(supplies) for _ in range(nodes))
    for found, equal in groupby(node_by_node):
        yield sum(1 for _ in equal), found


def _for_one_node(
    supplies: Sequence[tuple[Supply[_Owner], int]],
) -> list[tuple[tuple[_Owner, int], ...]]:
    return [supply.take(count) for supply, count in supplies]
