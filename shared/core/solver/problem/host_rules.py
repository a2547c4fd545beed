"""Rules about sharing a host, as the packer sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.problem.groups import Group


@dataclass(frozen=True, slots=True)
class HostRule:
    """A rule whose carriers have ``cap`` places on a node.

    ``is_exact``: keeping the cap keeps the rule. Otherwise carriers also count replicas that do not carry the rule (a
    selector that is not their own), so who joins a node must be looked at node by node, and nodes with carriers should
    be small: each carrier limits everybody else there.
    """

    number: int
    cap: int
    is_exact: bool


def host_rules(groups: Sequence[Group]) -> Mapping[int, HostRule]:
    """Return the rule of each group that carries one, by group index.

    Spread rules that see each other's replicas become one rule. An anti-affinity rule has one place a node.
    """
    rules: dict[int, HostRule] = {}
    for rule, members in _spread_rules(groups):
        rules.update(dict.fromkeys(members, rule))
    for group in groups:
        for near in group.constraints[0].anti:
            if near.topology_key == HOSTNAME:
                rules[group.index] = HostRule(near.term, 1, is_exact=True)
    return rules


def _spread_rules(groups: Sequence[Group]) -> list[tuple[HostRule, list[int]]]:
    """Return each rule with the groups that carry it."""
    skews: dict[int, int] = {}
    carriers: dict[int, set[int]] = {}  # by term: the groups that carry it
    for group in groups:
        for spread in group.constraints[0].spread:
            if spread.topology_key == HOSTNAME:
                skews[spread.term] = min(spread.max_skew, skews.get(spread.term, spread.max_skew))
                carriers.setdefault(spread.term, set()).add(group.index)
    exact = [term for term in sorted(skews) if _is_exact(term, carriers, groups)]
    found = [(HostRule(term, skews[term], is_exact=True), sorted(carriers[term])) for term in exact]
    loose = skews.keys() - exact
    if loose:
        members = sorted(set[int]().union(*(carriers[term] for term in loose)))
        cap = min(skews[term] for term in loose)
        found.append((HostRule(min(loose), cap, is_exact=False), members))
    return found


def _is_exact(term: int, carriers: Mapping[int, set[int]], groups: Sequence[Group]) -> bool:
    """Whether who carries the term is whom it counts, and carries no other."""
    own = carriers[term]
    if any(own & others for other, others in carriers.items() if other != term):
        return False
    return own == {group.index for group in groups if group.matching >> term & 1}
