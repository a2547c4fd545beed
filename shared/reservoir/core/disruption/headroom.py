"""What a pass may still disrupt, counted down as it decides."""

from collections import Counter
from collections.abc import Mapping, Sequence

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.model.node_pool import DisruptionReason


def used_up(candidate: Candidate) -> str:
    """Say that the budget of the node's pool allows no more nodes to be ended."""
    return f"budget of NodePool {candidate.pool.name} is used up"


class Headroom:
    """Nodes that may still be disrupted, by pool and reason; only ever counted down within one pass.

    The most restrictive active budget of each pool, less the nodes that are already on their way out (R-189), is given;
    a pool that is not listed may lose nothing.
    """

    def __init__(self, allowed: Mapping[tuple[str, DisruptionReason], int]) -> None:
        self._left = dict(allowed)

    def left(self, pool_name: str, reason: DisruptionReason) -> int:
        """Return how many of the pool's nodes may still be ended for ``reason``."""
        return max(0, self._left.get((pool_name, reason), 0))

    def together(self, candidates: Sequence[Candidate], reason: DisruptionReason) -> int:
        """Return how many of the first candidates fit into the rest together."""
        room: Counter[str] = Counter()
        for position, candidate in enumerate(candidates):
            name = candidate.pool.name
            room[name] += 1
            if room[name] > self.left(name, reason):
                return position
        return len(candidates)

    def within(
        self, candidates: Sequence[Candidate], reason: DisruptionReason
    ) -> list[Candidate]:
        """Return the candidates, in their order, that all fit into the rest together."""
        room: dict[str, int] = {}
        chosen = []
        for candidate in candidates:
            name = candidate.pool.name
            room.setdefault(name, self.left(name, reason))
            if room[name] > 0:
                room[name] -= 1
                chosen.append(candidate)
        return chosen

    def spend(self, candidates: tuple[Candidate, ...]) -> None:
        """Count the candidates against the budgets of all reasons, because an ended node counts for each of them."""
        for candidate in candidates:
            for reason in DisruptionReason:
                key = (candidate.pool.name, reason)
                if key in self._left:
                    self._left[key] -= 1
