"""The workloads behind a topology term: whose anti-affinity it is, and on which nodes the selected workloads run."""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain

from reservoir.core.model.workload import LabelSelector
from reservoir.core.solver.problem.selection import required
from reservoir.core.solver.problem.topology import TermKey, near_key
from reservoir.core.solver.solution.partial_plan import PartialPlan

_SHOWN = 3


class Neighbours:
    """Looks up the terms of a finished state by number."""

    def __init__(self, state: PartialPlan) -> None:
        self._state = state

    @cached_property
    def _keys(self) -> dict[int, TermKey]:
        return {term: key for key, term in self._state.terms.keys.items()}

    def key_of(self, term: int) -> TermKey:
        """Return what a term selects, and over which label."""
        return self._keys[term]

    def owners(self, terms: Collection[int]) -> list[str]:
        """Return the workloads with replicas somewhere that have one of the terms as required anti-affinity."""
        wanted = {self._keys[term] for term in terms}
        found = set(self._placed(terms))
        snapshot = self._state.catalogue.snapshot
        placements = chain.from_iterable(node.placements for node in snapshot.nodes)
        running = {placed.workload_key for placed in placements}
        for key in running & snapshot.workloads.keys() if wanted else ():
            workload = snapshot.workloads[key]
            if any(
                near_key(term, workload) in wanted
                for term in required(workload.anti_affinity)
            ):
                found.add(key)
        return sorted(found)[:_SHOWN]

    def _placed(self, terms: Collection[int]) -> Iterator[str]:
        """Yield the workloads with the term that this plan places."""
        for group in self._state.groups:
            has_term = any(group.constraints[-1].anti_mask >> term & 1 for term in terms)
            if has_term and self._state.remaining[group.index] < group.count:
                yield group.workload.key

    def nodes_with(self, term: int) -> list[str]:
        """Return the nodes that run replicas which a term over hosts selects."""
        found: list[str] = []
        for bin_ in self._state.bins:
            is_selected = any(matching >> term & 1 for matching, *_ in bin_.residents)
            if bin_.node is not None and is_selected:
                found.append(bin_.node.claim_id)
        return found


def selector_in_words(selector: LabelSelector) -> str:
    """Return a label selector as kubectl writes it."""
    parts = [f"{key}={value}" for key, value in selector.match_labels]
    parts += [
        f"{it.key} {it.operator} [{', '.join(sorted(it.values))}]"
        for it in selector.match_expressions
    ]
    return ",".join(parts) or "every workload"


def shown(domains: Iterable[str]) -> str:
    """Return the first of some names in brackets, and how many more there are."""
    found = sorted(domain for domain in domains if domain)
    if not found:
        return ""
    more = "" if len(found) <= _SHOWN else f" and {len(found) - _SHOWN} more"
    return f" ({', '.join(found[:_SHOWN])}{more})"
