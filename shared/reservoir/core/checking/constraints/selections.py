"""The workloads that carry topology rules, and the workloads that these rules select."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from reservoir.core.checking.final_state.demand_facts import WorkloadClass
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.final_state.numbering import Numbering
from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Workloads that a constraint is about; one object for equal selectors, so that it serves as a key."""

    keys: tuple[str, ...]
    members: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key in self.members


class Rules(NamedTuple):
    """What of a workload's topology binds: no preferences."""

    spread: tuple[TopologySpreadConstraint, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]


def rules_of(workload: Workload) -> Rules:
    """Return the constraints and terms that forbid."""
    return Rules(
        tuple(
            one
            for one in workload.topology_spread
            if one.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
        ),
        tuple(term for term in workload.affinity if term.weight is None),
        tuple(term for term in workload.anti_affinity if term.weight is None),
    )


class RuleGroup(NamedTuple):
    """Workloads with the same rules about the same others: of one namespace, and alike in ``matchLabelKeys``.

    What they require, tolerate and reach is the same too.
    """

    rules: Rules
    workloads: Mapping[str, Workload]

    @property
    def first(self) -> Workload:
        """One of them."""
        return next(iter(self.workloads.values()))


class Labelled(NamedTuple):
    """Workloads of one namespace with equal labels."""

    namespace: str
    labels: Mapping[str, str]
    keys: list[str]


_NO_RULES: Final = Rules((), (), ())


class Selections:
    """The rules of all workloads, and the workloads that their selectors match."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._of_terms: dict[tuple[str, int], Selected] = {}
        self._of_constraints: dict[tuple[object, ...], Selected] = {}
        self._selected: dict[tuple[frozenset[str], LabelSelector], Selected] = {}
        # of constraints and terms in the snapshot, which keeps them alive
        self._numbers = Numbering()

    @cached_property
    def groups(self) -> Sequence[RuleGroup]:
        """All workloads with rules."""
        return list(chain.from_iterable(map(_groups_of, self._facts.workload_classes)))

    def selected(self, carrier: Workload, term: AffinityTerm) -> Selected:
        """Return the workloads that a term of ``carrier`` is about."""
        about = (carrier.namespace, self._numbers.of(term))
        known = self._of_terms.get(about)
        if known is None:
            within = term.namespaces or frozenset({carrier.namespace})
            known = self._of_terms[about] = self._matching(within, term.selector)
        return known

    def spread_selected(
        self, carrier: Workload, constraint: TopologySpreadConstraint
    ) -> Selected:
        """Return the workloads that count for a spread constraint, ``matchLabelKeys`` included."""
        own = [carrier.labels.get(key) for key in constraint.match_label_keys]
        about = (carrier.namespace, self._numbers.of(constraint), *own)
        known = self._of_constraints.get(about)
        if known is None:
            selector = constraint.selector
            labels_too = zip(constraint.match_label_keys, own, strict=True)
            said = {(key, value) for key, value in labels_too if value is not None}
            if said:
                selector = replace(
                    selector, match_labels=tuple(sorted({*selector.match_labels, *said}))
                )
            known = self._of_constraints[about] = self._matching(
                frozenset({carrier.namespace}), selector
            )
        return known

    def _matching(self, namespaces: frozenset[str], selector: LabelSelector) -> Selected:
        known = self._selected.get((namespaces, selector))
        if known is None:
            found = (self._by_label.get(label, ()) for label in selector.match_labels)
            candidates = min(found, key=len, default=self._labelled)
            is_sure = len(selector.match_labels) == 1 and not selector.match_expressions
            keys: list[str] = []
            for one in candidates:
                if one.namespace in namespaces and (
                    is_sure or selector.matches(one.labels)
                ):
                    keys.extend(one.keys)
            known = self._selected[namespaces, selector] = Selected(
                tuple(keys), frozenset(keys)
            )
        return known

    @cached_property
    def _labelled(self) -> Sequence[Labelled]:
        found: dict[Hashable, Labelled] = {}
        for key, workload in self._facts.workloads.items():
            about = (workload.namespace, *workload.labels.items())
            one = found.get(about)
            if one is None:
                one = found[about] = Labelled(workload.namespace, workload.labels, [])
            one.keys.append(key)
        return [*found.values()]

    @cached_property
    def _by_label(self) -> Mapping[tuple[str, str], Sequence[Labelled]]:
        found: defaultdict[tuple[str, str], list[Labelled]] = defaultdict(list)
        for one in self._labelled:
            for label in one.labels.items():
                found[label].append(one)
        return dict(found)


def _groups_of(class_: WorkloadClass) -> Iterator[RuleGroup]:
    rules = rules_of(class_.first)
    if rules == _NO_RULES:
        return
    own_labels = list(chain.from_iterable(one.match_label_keys for one in rules.spread))
    parts: defaultdict[Hashable, dict[str, Workload]] = defaultdict(dict)
    for key, workload in class_.workloads.items() if own_labels else ():
        parts[tuple(workload.labels.get(label) for label in own_labels)][key] = workload
    for workloads in parts.values() if own_labels else (class_.workloads,):
        yield RuleGroup(rules, workloads)
