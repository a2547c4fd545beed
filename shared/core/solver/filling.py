"""Filling one node: which replicas together are worth most to it.

Every shape has a *worth* (USD an hour: what a replica would cost if it were bought alone and paid only for the resource
that it uses most). A node is filled shape by shape; the next shape is the one with the most worth for what it takes,
where a resource counts by its scarcity on the node at that moment. That keeps CPU and memory in balance, which no fixed
order of shapes can. Orders are presorted for a few exchange rates of memory for CPU, so a step is a table look-up.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import pairwise
from math import inf

from shared.core.solver.bits import iter_bits
from shared.core.solver.shapes import Shape
from shared.core.solver.vectors import Vector

# Memory is weighed in units of 4 MiB a millicore (4 GiB a vCPU), the middle of EC2's families: rates lie around 1.
MEMORY_UNIT = 4 * 2**20
_RATES = tuple(2.0**step for step in range(-4, 5))
# Powers of the scarcity ratio that are tried, one after the other, until a node is nearly full.
_SHARPNESS = (1.0, 0.5, 2.0)
_NEARLY_FULL = 40  # less than 1/40 of both CPU and memory is left
_URGENT = 2.0
# How much a shape's own balance, and its size, count beside its worth for what it takes (both found by trial): on
# nodes that hold many replicas hardly, on nodes that are opened for one replica and hold few, size counts much.
_MANY = (0.5, 0.1)
_FEW = (0.7, 0.7)
_SHAPES_A_RATE = 14
_SHAPES_MAX = 96

Contents = tuple[tuple[int, int], ...]


class Orders:
    """The shapes of one mask, sorted by worth for what they take, one list per exchange rate."""

    __slots__ = ("by_rate", "special")

    def __init__(self, members: Sequence[int], filler: "Filler", style: tuple[float, float]) -> None:
        plain = {index for index in members if not filler.is_special[index]}
        special = [index for index in members if filler.is_special[index]]
        ranked = [[index for index in order if index in plain] for order in filler.ranked(style)]
        if len(plain) > _SHAPES_MAX:
            kept = _shortlist(ranked, plain, filler)
            ranked = [[index for index in order if index in kept] for order in ranked]
        self.by_rate = ranked
        self.special = sorted(special, key=lambda i: (-filler.worth[i] / filler.special_share[i], i))


def _shortlist(ranked: Sequence[Sequence[int]], plain: Set[int], filler: "Filler") -> set[int]:
    """Keep the best shapes at five rates, and the most and least worthy: no loss of cost, and time stays linear."""
    kept: set[int] = set()
    for order in ranked[::2]:
        kept.update(order[:_SHAPES_A_RATE])
    by_worth = sorted(plain, key=lambda i: (-filler.worth[i], i))
    kept.update(by_worth[:_SHAPES_A_RATE])
    kept.update(by_worth[-_SHAPES_A_RATE:])
    return kept


def _attraction(
    filler: "Filler", rate: float, own_balance: float, own_size: float
) -> Callable[[int], tuple[float, int]]:
    """Sort by worth for what is taken; among near equals, what is balanced and large goes in while there is room."""
    urgency, cpu, memory = filler.urgency, filler.cpu, filler.memory_units

    def key(index: int) -> tuple[float, int]:
        first, second = cpu[index], rate * memory[index]
        taken = first + second
        balance = 1.0 - own_balance * abs(first - second) / taken
        return (-urgency[index] / taken * balance * taken**own_size, index)

    return key


class Filler:
    """Fills nodes from what is left of each shape. ``left`` is shared with the caller, who takes from it."""

    def __init__(self, shapes: Sequence[Shape], worth: Sequence[float], left: list[int]) -> None:
        self.shapes = shapes
        self._orders: dict[tuple[int, tuple[float, float]], tuple[Orders, int]] = {}
        self._ranked: dict[tuple[float, float], list[list[int]]] = {}
        # A replica without requests still takes a pod; the tiny amount keeps densities finite.
        self.cpu = [max(1, shape.request[0]) for shape in shapes]
        self.memory = [max(1, shape.request[1]) for shape in shapes]
        self.memory_units = [max(1, shape.request[1]) / MEMORY_UNIT for shape in shapes]
        self.reprice(worth)
        self.pods = [shape.request[2] for shape in shapes]
        self.left = left
        self.requests = [shape.request for shape in shapes]
        self.hosts = [None if shape.host is None else shape.host.number for shape in shapes]
        self.is_special = [any(shape.request[3:]) for shape in shapes]
        largest = [max((shape.request[k] for shape in shapes), default=0) for k in range(self.dimensions)]
        self.special_share = [
            max((shape.request[k] / largest[k] for k in range(3, self.dimensions) if largest[k]), default=0.0) or 1.0
            for shape in shapes
        ]
        self.host_caps: dict[int, int] = {}
        for shape in shapes:
            if shape.host is not None:
                self.host_caps[shape.host.number] = shape.host.cap
        self._edges = {power: [(low * high) ** (0.5 / power) for low, high in pairwise(_RATES)] for power in _SHARPNESS}
        self.fills = 0

    def reprice(self, worth: Sequence[float]) -> None:
        """Go on with other worths."""
        self.worth = list(worth)
        # Replicas with rules about hosts need many nodes: they are chosen early, while every node has room for one.
        self.urgency = [
            value * (_URGENT if shape.host is not None else 1.0)
            for value, shape in zip(worth, self.shapes, strict=True)
        ]
        self._orders.clear()
        self._ranked.clear()

    def ranked(self, style: tuple[float, float]) -> list[list[int]]:
        """Return all shapes by attraction, one list per rate; sorted once, so that a mask only has to pick its own."""
        known = self._ranked.get(style)
        if known is None:
            everyone = range(len(self.shapes))
            known = [sorted(everyone, key=_attraction(self, rate, *style)) for rate in _RATES]
            self._ranked[style] = known
        return known

    @property
    def dimensions(self) -> int:
        """Number of resource names."""
        return len(self.shapes[0].request)

    def orders(self, mask: int, style: tuple[float, float] = _MANY) -> Orders:
        """Return the sorted shapes of a mask, rebuilt when too many of them have run out."""
        known = self._orders.get((mask, style))
        if known is not None:
            orders, size = known
            if size <= _SHAPES_MAX or any(self.left[index] > 0 for index in orders.by_rate[4][: size // 2]):
                return orders
        members = [index for index in iter_bits(mask) if self.left[index] > 0]
        orders = Orders(members, self, style)
        self._orders[mask, style] = (orders, len(members))
        return orders

    def bound(self, size: Vector, mask: int) -> float:
        """Return a worth that no content of a node of this size exceeds (up to the shortlist)."""
        orders = self.orders(mask)
        best = inf
        memory = size[1] / MEMORY_UNIT
        for rate, members in zip(_RATES, orders.by_rate, strict=True):
            for index in members:
                if self.left[index] > 0:
                    density = self.worth[index] / (self.cpu[index] + rate * self.memory_units[index])
                    best = min(best, density * (size[0] + rate * memory))
                    break
        total = 0.0 if best is inf else best
        return total + self._special_bound(size, orders)

    def _special_bound(self, size: Vector, orders: Orders) -> float:
        total = 0.0
        for dimension in range(3, self.dimensions):
            if size[dimension]:
                rates = [
                    self.worth[index] / self.shapes[index].request[dimension]
                    for index in orders.special
                    if self.left[index] > 0 and self.shapes[index].request[dimension]
                ]
                total += max(rates, default=0.0) * size[dimension]
        return total

    def fill(self, size: Sequence[int], mask: int, base: Contents = ()) -> tuple[float, Contents]:
        """Return the best content found for a node with this much room, and its worth; ``base`` is on it already."""
        best_worth = 0.0
        best: Contents = ()
        for worth, content in self.fills_of(size, mask, base):
            if worth > best_worth:
                best_worth, best = worth, content
        return best_worth, best

    def fills_of(
        self, size: Sequence[int], mask: int, base: Contents = (), *, thorough: bool = False
    ) -> Iterator[tuple[float, Contents]]:
        """Yield contents with their worth until one nearly fills the node; all that are tried when ``thorough``."""
        self.fills += 1
        for style in (_FEW, _MANY) if thorough else (_FEW,) if base else (_MANY,):
            orders = self.orders(mask, style)
            for power in _SHARPNESS:
                room = list(size)
                left = self.left[:]
                caps = dict(self.host_caps)
                content: dict[int, int] = {}
                for index, count in base:
                    self._take(index, count, room, left, caps, content)
                for index in orders.special:
                    # Accelerators first: whatever else a node has is worth little beside them.
                    count = self._fitting(index, room, left, caps)
                    if count > 0:
                        self._take(index, count, room, left, caps, content)
                self._fill_plain(orders, power, room, left, caps, content)
                worth = sum([self.worth[index] * count for index, count in content.items()])
                yield worth, tuple(sorted(content.items()))
                if not thorough and room[0] * _NEARLY_FULL < size[0] and room[1] * _NEARLY_FULL < size[1]:
                    return

    def _take(
        self,
        index: int,
        count: int,
        room: list[int],
        left: list[int],
        caps: dict[int, int],
        content: dict[int, int],
    ) -> None:
        for dimension, asked in enumerate(self.requests[index]):
            room[dimension] -= asked * count
        content[index] = content.get(index, 0) + count
        left[index] -= count
        host = self.hosts[index]
        if host is not None:
            caps[host] -= count

    def _fitting(self, index: int, room: Sequence[int], left: Sequence[int], caps: dict[int, int]) -> int:
        count = left[index]
        host = self.hosts[index]
        if host is not None and caps[host] < count:
            count = caps[host]
        for asked, available in zip(self.requests[index], room, strict=True):
            if asked * count > available:
                count = available // asked
        return count

    def _fill_plain(
        self,
        orders: Orders,
        power: float,
        room: list[int],
        left: list[int],
        caps: dict[int, int],
        content: dict[int, int],
    ) -> None:
        """Add plain shapes to ``content`` and take them from ``room`` and ``left``."""
        edges, by_rate = self._edges[power], orders.by_rate
        positions = [0] * len(by_rate)
        length = len(by_rate[0])
        cpu, memory, pods, hosts = self.cpu, self.memory, self.pods, self.hosts
        free_cpu, free_memory, free_pods = room[:3]
        while free_cpu > 0 and free_memory > 0 and free_pods > 0:
            # Memory's exchange rate is how scarce it is beside CPU on what is left of the node.
            rate = bisect_right(edges, free_cpu * MEMORY_UNIT / free_memory)
            order, position = by_rate[rate], positions[rate]
            count, host = 0, None
            # This loop is where the time goes; what is refused once is refused for good, as room only shrinks.
            while position < length:
                index = order[position]
                if left[index] > 0 and cpu[index] <= free_cpu and memory[index] <= free_memory:
                    count = min(left[index], free_cpu // cpu[index], free_memory // memory[index])
                    if count * pods[index] > free_pods:
                        count = free_pods // pods[index]
                    host = hosts[index]
                    if host is not None and count > caps[host]:
                        count = caps[host]
                    if count > 0:
                        break
                position += 1
            positions[rate] = position
            if count == 0:
                break
            # About a quarter at a time, so that the balance is looked at again.
            if count > 3:
                count //= 4
            if host is not None:
                caps[host] -= count
            left[index] -= count
            content[index] = content.get(index, 0) + count
            free_cpu -= cpu[index] * count
            free_memory -= memory[index] * count
            free_pods -= pods[index] * count
        room[:3] = free_cpu, free_memory, free_pods
