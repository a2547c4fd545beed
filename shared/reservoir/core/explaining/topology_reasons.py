"""Which topology rule keeps replicas from every place, what holds it back, and what would help."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from reservoir.core.explaining.neighbours import Neighbours, selector_in_words, shown
from reservoir.core.explaining.room import left_in, rooms_of
from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.scheduling_terms.taint import untolerated
from reservoir.core.solver.problem.catalogue import Entry, LaunchOption
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.topology import NearTerm, SpreadTerm
from reservoir.core.solver.solution.partial_plan import PartialPlan

_DOMAINS_SHOWN = 3
# Why the nearest place in a domain (by topology key and value) cannot serve, apart from rules; None: it can.
Nearest = Callable[[str, str], str | None]


def topology_message(
    state: PartialPlan,
    group: Group,
    nearest: Nearest,
    has_choice: Callable[[LaunchOption], bool],
) -> str | None:
    """Return the rule that binds, in words; None when none of them leaves too little by itself or with the others.

    ``has_choice`` says whether minValues lets a replica alone have the option.
    """
    if not group.equivalence_class.terms:
        return None  # no rule is its own, and none is about it
    return next(_NeighbourRules(state, group, nearest, has_choice).messages(), None)


class _NeighbourRules:
    """A group's rules, asked one after the other about the places that units, limits and money leave it."""

    def __init__(
        self,
        state: PartialPlan,
        group: Group,
        nearest: Nearest,
        has_choice: Callable[[LaunchOption], bool],
    ) -> None:
        self._state, self._group, self._nearest = state, group, nearest
        self._ledger, self._constraints = state.ledger, group.constraints[-1]
        self._wanted = 1 if group.workload.gang is None else group.count
        self._neighbours = Neighbours(state)
        budget = state.price_caps.left(group) if group.is_price_capped else None
        self._places = [
            (room.labels, held, room.option is None)
            for room, held in left_in(rooms_of(state, group), state.residual)
            if room.option is None
            or ((budget is None or room.option.price <= budget) and has_choice(room.option))
        ]

    def messages(self) -> Iterator[str]:
        """Yield what binds, affinity first: a spread cannot be kept where nothing may be."""
        for near in self._constraints.affinity:
            yield from (
                self._of_host_affinity(near)
                if near.topology_key == HOSTNAME
                else self._of_affinity(near)
            )
        for near in self._constraints.anti:
            if near.topology_key != HOSTNAME:
                yield from self._of_anti_affinity(near)
        yield from self._of_others()
        yield from self._of_all_together()
        for spread in self._constraints.spread:
            if spread.topology_key != HOSTNAME:
                yield from self._of_spread(spread)

    # -- affinity and anti-affinity

    def _domains(self, key: str) -> set[str]:
        """Return the domains in which there is a place."""
        return {labels[key] for labels, *_ in self._places if key in labels}

    def _running(self, near: NearTerm) -> set[str]:
        """Return the domains in which there is what a term is about."""
        return {
            domain
            for domain, count in self._ledger.by_term[near.term].matched.items()
            if count > 0
        }

    def _of_affinity(self, near: NearTerm) -> Iterator[str]:
        key = near.topology_key
        where = self._domains(near.topology_key)
        running = self._running(near)
        if running & where or (near.matches_self and where and not running):
            return
        if running:
            names = ", ".join(sorted(running)[:_DOMAINS_SHOWN])
            why = self._why(key, min(running))
            yield f"affinity: the replicas that it must be near run only in {names}, where it gets no capacity ({why})"
        elif where or not near.matches_self:
            yield f"affinity: no replica that it must be near runs in a {key} where it may run"
        else:
            yield f"affinity: no capacity that it may use has the label {key}"

    def _of_host_affinity(self, near: NearTerm) -> Iterator[str]:
        is_running = self._ledger.populated_hosts.get(near.term, 0) > 0
        if near.matches_self and not is_running:
            return
        if not is_running:
            yield "affinity: no replica that it must be near runs on any node"
        elif not any(is_node for *_, is_node in self._places):
            names = self._neighbours.nodes_with(near.term)
            yield f"affinity: no node with replicas that it must be near has room for it{shown(names)}"

    def _of_anti_affinity(self, near: NearTerm) -> Iterator[str]:
        key, where = near.topology_key, self._domains(near.topology_key)
        if not all(key in labels for labels, *_ in self._places):
            return  # what lacks the label lies in no domain
        free = where - self._running(near)
        if where and not free:
            yield f"anti-affinity: a replica that it avoids runs in every {key} where it may run{shown(where)}"
        elif near.matches_self and len(free) < self._wanted:
            yield f"anti-affinity: each replica needs a {key} for itself, and there are {len(free)}{shown(free)}"

    def _of_others(self) -> Iterator[str]:
        """Yield the anti-affinity of other workloads that leaves it no place."""
        terms = self._avoided_by_any(labels for labels, *_ in self._places)
        if self._places and all(self._avoiding(labels) for labels, *_ in self._places):
            key = self._ledger.by_term[min(terms)].topology_key
            owners = ", ".join(self._neighbours.owners(terms))
            where = shown(self._domains(key))
            yield f"anti-affinity of {owners}: a replica that avoids it runs in every {key} where it may run{where}"

    def _avoiding(self, labels: Mapping[str, str]) -> list[int]:
        """Return the terms by which the replicas there keep it from such a node."""
        return [
            term
            for term, counts in self._ledger.by_term.items()
            if self._group.matching >> term & 1
            and counts.owners.get(labels.get(counts.topology_key, ""), 0) > 0
        ]

    def _avoided_by_any(self, places: Iterable[Mapping[str, str]]) -> set[int]:
        return set(chain.from_iterable(map(self._avoiding, places)))

    def _may_be(self, labels: Mapping[str, str]) -> bool:
        """Whether affinity and anti-affinity, its own and that of others, let it be on such a node."""
        return self._ledger.near_room(self._constraints, labels) > 0 and not self._avoiding(
            labels
        )

    def _of_all_together(self) -> Iterator[str]:
        """Yield the rules that leave a place one by one, but none together."""
        if not self._places or any(self._may_be(labels) for labels, *_ in self._places):
            return
        told = [f"affinity to {self._about(near)}" for near in self._constraints.affinity]
        told += [
            f"anti-affinity to {self._about(near)}"
            for near in self._constraints.anti
            if self._counts(near)
        ]
        terms = self._avoided_by_any(labels for labels, *_ in self._places)
        told += [f"anti-affinity of {owner}" for owner in self._neighbours.owners(terms)]
        yield f"no place meets all of these at once: {'; '.join(told)}"

    def _counts(self, near: NearTerm) -> bool:
        return near.topology_key != HOSTNAME and bool(self._running(near))

    def _about(self, near: NearTerm) -> str:
        """Return what a term selects, and where that runs."""
        selected = selector_in_words(self._neighbours.key_of(near.term).selector)
        if near.topology_key == HOSTNAME:
            return selected
        return selected + shown(self._running(near))

    # -- spread

    # Branches: one explanation after the other; the first that holds is given.
    def _of_spread(self, spread: SpreadTerm) -> Iterator[str]:
        """Yield which domains limit a spread: those that stay the emptiest, with everything that fits there."""
        key, matched = spread.topology_key, self._ledger.by_term[spread.term].matched
        room = self._room_by_domain(key)
        are_too_few = (
            spread.min_domains is not None and len(spread.domains) < spread.min_domains
        )
        filled = {
            domain: matched.get(domain, 0) + room[domain] for domain in spread.domains
        }
        lowest = 0 if are_too_few else min(filled.values(), default=0)
        allowed = sum(
            min(
                room[domain], spread.room(matched.get(domain, 0) - spread.max_skew - lowest)
            )
            for domain in spread.domains
        )
        if allowed >= self._wanted:
            return
        if are_too_few:
            taken = (
                f", which take {allowed} with maxSkew {spread.max_skew}" if allowed else ""
            )
            there = f"there are {len(spread.domains)}{shown(spread.domains)}"
            yield f"spread over {key}: minDomains asks for {spread.min_domains}, and {there}{taken}"
        elif not spread.domains:
            yield f"spread over {key}: no capacity that it may use has this label"
        else:
            holding = sorted(
                domain for domain in spread.domains if filled[domain] == lowest
            )
            alike = [domain for domain in holding if room[domain] == room[holding[0]]][
                :_DOMAINS_SHOWN
            ]
            has = f"{', '.join(alike)} has {matched.get(alike[0], 0)} of these replicas"
            more = (
                f"{room[alike[0]]} more only"
                if room[alike[0]]
                else f"none ({self._why(key, alike[0])})"
            )
            yield f"spread over {key} with maxSkew {spread.max_skew}: {has} and can get {more}"

    def _room_by_domain(self, key: str) -> Counter[str]:
        """Return how many of the replicas units, limits and the other rules leave room for in each domain."""
        room = Counter[str]()
        for labels, held, _ in self._places:
            if key in labels and self._may_be(labels):
                at_most = self._ledger.near_room(self._constraints, labels)
                room[labels[key]] = min(
                    self._group.count, room[labels[key]] + min(held, at_most)
                )
        return room

    # -- why a domain is out of reach

    def _why(self, key: str, domain: str) -> str:
        """Say why the work can get no capacity in the domain, and what would help."""
        there = [labels for labels, *_ in self._places if labels.get(key) == domain]
        if there:
            return self._whose(there)
        selling = {
            entry.index: entry
            for entry, labels in self._state.catalogue.places
            if labels.get(key) == domain
        }
        if not selling:
            return "no pool offers capacity there"
        unlisted = "the capacity there is not for it, or not available now"
        return (
            self._only_tainted(selling.values()) or self._nearest(key, domain) or unlisted
        )

    def _whose(self, there: Iterable[Mapping[str, str]]) -> str:
        """Say which workload's rule keeps it out of a domain that has a place."""
        owners = self._neighbours.owners(self._avoided_by_any(there))
        if owners:
            return f"anti-affinity of {', '.join(owners)} keeps it out of there"
        is_avoided = any(map(self._avoids, there))
        return (
            f"its own {'anti-affinity' if is_avoided else 'affinity'} keeps it out of there"
        )

    def _avoids(self, labels: Mapping[str, str]) -> bool:
        """Whether its own anti-affinity, hosts apart, keeps it from a place with these labels."""
        avoided = [near for near in self._constraints.anti if near.topology_key != HOSTNAME]
        return any(labels.get(near.topology_key) in self._running(near) for near in avoided)

    def _only_tainted(self, selling: Iterable[Entry]) -> str | None:
        tolerations = self._group.levels[-1].selection.tolerations
        refused: dict[str, str] = {}
        names = set()
        for entry in selling:
            names.add(entry.pool.name)
            taint = next(untolerated(entry.taints, tolerations), None)
            if taint is not None:
                refused[entry.pool.name] = str(taint)
        if len(refused) < len(names):
            return None
        name = min(refused)
        return (
            f"only pool {name} offers capacity there, and its taint {refused[name]} is not tolerated;"
            " nodeTaintsPolicy: Honor would leave such domains out"
        )
