"""From items back to groups: which replicas go on which node of a pattern, with host rules kept exactly."""

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.packing.item_types import ItemType
from shared.core.solver.packing.packing import PatternUse
from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.groups import EquivalenceClass
from shared.core.solver.problem.supply import Supply, dealt
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.domain_assignment import DomainBatch
from shared.core.solver.solution.partial_plan import PartialPlan

# The spread rules about hosts that a replica matches, and those that it carries with their skews.
_Rules = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
_FREE = 0  # the number of the rules of replicas that have none
_Sort = tuple[int, int, int]  # minus how many are left, the place among equals, the number of their rules


class _Stock:
    """What is left of an item's batches, by the number of the group's rules."""

    def __init__(self, item_type: ItemType, rules_of: Callable[[EquivalenceClass], int]) -> None:
        found: dict[int, list[tuple[int, int]]] = {}
        totals: dict[int, int] = {}
        for batch in reversed(item_type.batches):
            number = rules_of(batch.relaxed.group.equivalence_class)
            found.setdefault(number, []).append((batch.relaxed.group.index, batch.count))
            totals[number] = totals.get(number, 0) + batch.count
        self.buckets = {number: Supply(groups) for number, groups in found.items()}
        self.is_plain = self.buckets.keys() == {_FREE}
        # The kinds of replicas, the most plentiful first; equals as the batches came.
        self.kinds = sorted((-count, position, number) for position, (number, count) in enumerate(totals.items()))

    def take_one(self, kind: _Sort) -> int:
        """Return the group of one replica of a kind that is left."""
        less, position, number = kind
        self.kinds.remove(kind)
        if less < -1:
            insort(self.kinds, (less + 1, position, number))
        ((group, _),) = self.buckets[number].take(1)
        return group


class Disaggregation:
    """Writes patterns into a state, for good; :meth:`finish` must follow."""

    def __init__(self, state: PartialPlan, item_types: Sequence[ItemType]) -> None:
        self._state = state
        self._item_types = item_types
        self._level = item_types[0].batches[0].relaxed.level  # batches of one level are packed together
        # Only spread rules need a look at each node: packing has already kept anti-affine replicas apart.
        self._spread_mask = 0
        for kind in {batch.relaxed.group.equivalence_class for item_type in item_types for batch in item_type.batches}:
            for spread in kind.constraints[0].spread:
                if spread.topology_key == HOSTNAME:
                    self._spread_mask |= 1 << spread.term
        self._placed: dict[
            int, tuple[Bin, dict[EquivalenceClass, int]]
        ] = {}  # per labels of nodes: groups are many, kinds few
        self._rules: list[_Rules] = [((), ())]
        self._numbers: dict[_Rules, int] = {((), ()): _FREE}
        self._known: dict[EquivalenceClass, int] = {}
        self._stocks = [_Stock(item_type, self._number) for item_type in item_types]

    def _number(self, kind: EquivalenceClass) -> int:
        """Return the number of the rules of a kind of groups."""
        known = self._known.get(kind)
        if known is None:
            spreads = kind.constraints[0].spread
            carried = tuple((item.term, item.max_skew) for item in spreads if item.topology_key == HOSTNAME)
            rules = (tuple(iter_bits(kind.matching & self._spread_mask)), carried)
            known = self._known[kind] = self._numbers.setdefault(rules, len(self._rules))
            if known == len(self._rules):
                self._rules.append(rules)
        return known

    def write(self, use: PatternUse) -> None:
        """Put the pattern's replicas on nodes. What host rules refuse is left for insertion."""
        items = sorted(use.pattern.items())
        if all(self._stocks[index].is_plain for index, _ in items):
            self._write_runs(use, items)
            return
        # Carriers first: what they allow decides who may join them.
        items.sort(key=lambda item: (self._item_types[item[0]].host is None, item[0]))
        wanted = sum(use.pattern.values())
        for _ in range(use.count):
            who = self._slots(use.bin, items)
            if who:
                is_whole = sum(who.values()) == wanted
                self._settle(self._bin(use, 1), who, use.room if is_whole else None)

    def _settle(self, bin_: Bin, who: Mapping[int, int], room: Sequence[int] | None) -> None:
        """Put replicas by group on each node of a bin; ``room`` is what is left there, where that is known."""
        self._state.settle(bin_, who, self._level, room)
        known = self._placed.get(id(bin_.labels))
        if known is None:
            known = self._placed[id(bin_.labels)] = (bin_, {})
        placed, groups = known[1], self._state.groups
        for index, per_node in who.items():
            kind = groups[index].equivalence_class
            placed[kind] = placed.get(kind, 0) + per_node * bin_.count

    def finish(self) -> list[DomainBatch]:
        """Count in its domains what was placed, and return what found no place."""
        ledger = self._state.ledger
        for bin_, placed in self._placed.values():
            for kind, count in placed.items():
                ledger.add(bin_.labels, bin_.taints, kind.matching, kind.constraints[self._level].anti_mask, count)
                ledger.carry(bin_.labels, kind.constraints[-1], count)
        return list(self._leftovers())

    def _leftovers(self) -> Iterator[DomainBatch]:
        """Yield what found no place, with the domain that it was assigned to."""
        for item_type, stock in zip(self._item_types, self._stocks, strict=True):
            for _, supply in sorted(stock.buckets.items(), key=itemgetter(0)):
                for index, count in reversed(supply.left):
                    yield DomainBatch(self._state.groups[index].relaxed[self._level], item_type.pin, count)

    def _bin(self, use: PatternUse, count: int) -> Bin:
        if use.bin is not None:
            return self._state.split_bin(use.bin, count)
        assert use.bin_type is not None
        return self._state.open_bin(use.bin_type.option, count)

    def _write_runs(self, use: PatternUse, items: Sequence[tuple[int, int]]) -> None:
        supplies = [(self._stocks[index].buckets[_FREE], count) for index, count in items]
        for nodes, found in dealt(supplies, use.count):
            together: dict[int, int] = {}
            for index, per_node in chain.from_iterable(found):
                together[index] = together.get(index, 0) + per_node
            self._settle(self._bin(use, nodes), together, use.room)

    def _slots(self, bin_: Bin | None, items: Sequence[tuple[int, int]]) -> dict[int, int]:
        """Take replicas for the slots of one node, item by item, so that every spread rule carried there is kept."""
        matched, limits = ({}, {}) if bin_ is None else self._present(bin_)
        who: dict[int, int] = {}
        for index, count in items:
            stock = self._stocks[index]
            if stock.is_plain:
                for group, taken in stock.buckets[_FREE].take(count):
                    who[group] = who.get(group, 0) + taken
                continue
            for _ in range(count):
                kind = self._choose(stock, matched, limits)
                if kind is None:
                    break
                group = stock.take_one(kind)
                who[group] = who.get(group, 0) + 1
                own, carried = self._rules[kind[2]]
                for term in own:
                    matched[term] = matched.get(term, 0) + 1
                for term, skew in carried:
                    limits[term] = min(skew, limits.get(term, skew))
        return who

    def _present(self, bin_: Bin) -> tuple[dict[int, int], dict[int, int]]:
        """Return how many on the bin match each spread rule about hosts, and which skews are insisted on there."""
        matched: dict[int, int] = {}
        limits: dict[int, int] = {}
        present = [(matching, count) for matching, _, count in bin_.residents]
        for index, count in bin_.contents.items():
            group = self._state.groups[index]
            present.append((group.matching, count))
            for term, skew in self._rules[self._number(group.equivalence_class)][1]:
                limits[term] = min(skew, limits.get(term, skew))
        for matching, count in present:
            for term in iter_bits(matching & self._spread_mask):
                matched[term] = matched.get(term, 0) + count
        return matched, limits

    def _choose(self, stock: _Stock, matched: Mapping[int, int], limits: Mapping[int, int]) -> _Sort | None:
        """Return the most plentiful kind of replica that may join the node."""
        return next((kind for kind in stock.kinds if _may_join(self._rules[kind[2]], matched, limits)), None)


def _may_join(rules: _Rules, matched: Mapping[int, int], limits: Mapping[int, int]) -> bool:
    own, carried = rules
    for term in own:
        if term in limits and matched.get(term, 0) >= limits[term]:
            return False
    for term, skew in carried:  # noqa: SIM110 # asked for each replica, and all() takes twice as long
        if matched.get(term, 0) + (term in own) > skew:
            return False
    return True
