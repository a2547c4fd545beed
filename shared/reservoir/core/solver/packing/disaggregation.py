"""Writes a packing into the plan: which replicas of which group go onto the nodes of each pattern.

Replicas are taken from the batches of each item in turn. Where spread rules over hosts count them, each node is checked
before a replica is placed, so that the rules are kept exactly.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import chain

from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.solver.packing.item_types import ItemType
from reservoir.core.solver.packing.packing import PatternUse
from reservoir.core.solver.problem.supply import Supply, distributed
from reservoir.core.solver.problem.vectors import mask_of
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.domain_assignment import DomainBatch
from reservoir.core.solver.solution.partial_plan import PartialPlan

# Batches, the most replicas left first: that number negated, the batch's position in its item type, and the batch.
_Heap = list[tuple[int, int, DomainBatch]]


class Disaggregation:
    """Writes pattern uses into a partial plan."""

    def __init__(self, state: PartialPlan, item_types: Sequence[ItemType]) -> None:
        self._state = state
        self._item_types = item_types
        self._supplies: list[Supply[DomainBatch]] = []
        for item_type in item_types:
            last_first = [(batch, batch.count) for batch in reversed(item_type.batches)]
            self._supplies.append(Supply(last_first))
        self._watched = _watched(item_types)

    def write(self, use: PatternUse) -> None:
        """Put the pattern's replicas on its nodes; replicas that host rules refuse are left for insertion."""
        items = sorted(use.pattern.items())
        if self._watched.keys() & use.pattern.keys():
            # Carriers come first: their rules decide which other replicas may join them.
            items.sort(key=lambda item: (self._item_types[item[0]].host is None, item[0]))
            for _ in range(use.count):
                self._fill_node(self._bin(use, 1), items)
            return
        for nodes, found in distributed(
            [(self._supplies[index], count) for index, count in items], use.count
        ):
            bin_ = self._bin(use, nodes)
            for batch, per_node in chain.from_iterable(found):
                self._state.place(bin_, batch.relaxed, per_node)

    def left(self) -> list[DomainBatch]:
        """Return the replicas that were not placed, as batches."""
        left: list[DomainBatch] = []
        for index, supply in enumerate(self._supplies):
            if index in self._watched:
                for minus_count, _, batch in sorted(self._watched[index]):
                    left.append(DomainBatch(batch.relaxed, batch.pin, -minus_count))
            else:
                for batch, count in reversed(supply.left):
                    left.append(DomainBatch(batch.relaxed, batch.pin, count))
        return left

    def _bin(self, use: PatternUse, count: int) -> Bin:
        if use.bin is not None:
            return self._state.split_bin(use.bin, count)
        assert use.bin_type is not None
        return self._state.open_bin(use.bin_type.option, count)

    def _fill_node(self, bin_: Bin, items: Sequence[tuple[int, int]]) -> None:
        """Place replicas on one node, item by item, so that each spread rule carried there is kept.

        ``items`` are item indices with the number of replicas wanted.
        """
        for index, count in items:
            if (waiting := self._watched.get(index)) is None:
                for batch, taken in self._supplies[index].take(count):
                    self._state.place(bin_, batch.relaxed, taken)
                continue
            looked_at: _Heap = []
            while count and waiting:
                minus_left, position, batch = heappop(waiting)
                taken = min(
                    count, -minus_left, self._state.admission.host_room(batch.relaxed, bin_)
                )
                if taken:
                    self._state.place(bin_, batch.relaxed, taken)
                    count -= taken
                if minus_left + taken:
                    looked_at.append((minus_left + taken, position, batch))
            for each in looked_at:
                heappush(waiting, each)


def _watched(item_types: Sequence[ItemType]) -> dict[int, _Heap]:
    """Return the batches of items that must be checked node by node, by item index.

    These are the items that carry a spread rule over hosts or are counted by one. Anti-affinity needs no check: packing
    has already kept those replicas apart.
    """
    carried = 0
    for item_type in item_types:
        for batch in item_type.batches:
            carried |= mask_of(_host_spread(batch))
    watched: dict[int, _Heap] = {}
    for item_type in item_types:
        is_concerned = any(
            batch.relaxed.group.matching & carried or _host_spread(batch)
            for batch in item_type.batches
        )
        if is_concerned:
            most_first = [(-it.count, at, it) for at, it in enumerate(item_type.batches)]
            watched[item_type.index] = sorted(most_first)
    return watched


def _host_spread(batch: DomainBatch) -> list[int]:
    """Return the terms of the spread rules over hosts that the batch carries."""
    spreads = batch.relaxed.constraints.spread
    return [spread.term for spread in spreads if spread.topology_key == HOSTNAME]
