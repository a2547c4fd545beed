"""minValues: how many distinct values of a label the types of a node must leave to choose from (R-17, R-53)."""

from collections.abc import Sequence

from shared.core.policy import MinValuesPolicy
from shared.core.solver.market import Entry, Market, Option


class MinValues:
    """Answers whether enough kinds of instance types could hold a content, for pools that ask for it."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._wanted: dict[int, dict[str, int]] = {}
        self._memo: dict[object, bool] = {}
        if market.policy.min_values_policy is MinValuesPolicy.STRICT:
            for entry in market.entries:
                self._wanted[entry.index] = wanted_values(entry)

    def concerns(self, entry: Entry) -> bool:
        """Whether the entry's pool asks for anything."""
        return bool(self._wanted.get(entry.index))

    def holds(self, option: Option, load: Sequence[int], wishes: Sequence[int]) -> bool:
        """Whether the types that hold ``load`` for replicas with these wishes have enough distinct values."""
        wanted = self._wanted.get(option.entry.index)
        if not wanted:
            return True
        key = (option.index, tuple(load), tuple(wishes))
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._count(option, load, wishes, wanted)
        return known

    def _count(self, option: Option, load: Sequence[int], wishes: Sequence[int], wanted: dict[str, int]) -> bool:
        """Count over what the node could be launched as: itself and its alternatives, which are none cheaper (R-28).

        A reserved node has no alternatives; it counts every type of the pool that could hold its replicas.
        """
        hosting = [
            other
            for other in self._market.options
            if other.entry is option.entry
            and (option.reservation is not None or _is_alternative(other, option))
            and all(other.alternatives & wish for wish in wishes)
            and all(used <= whole for used, whole in zip(load, other.allocatable, strict=True))
        ]
        if option.reservation is None:
            hosting.sort(key=lambda other: (other is not option, other.price, other.index))
            hosting = hosting[: 1 + self._market.policy.alternatives_max]
        labels = [self._market.labels(other) for other in hosting]
        return all(len({found[key] for found in labels if key in found}) >= least for key, least in wanted.items())


def _is_alternative(other: Option, option: Option) -> bool:
    same_market = other.reservation is None and other.key.capacity_type is option.key.capacity_type
    return same_market and other.price >= option.price


def wanted_values(entry: Entry) -> dict[str, int]:
    """Return the pool's minValues by label."""
    return {
        key: requirement.min_values for key, requirement in entry.pool.requirements.items() if requirement.min_values
    }
