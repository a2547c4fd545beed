"""Rules about sharing a host, as the packer sees them."""

from collections import Counter, defaultdict
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


# Branches: loops and comprehensions of a line each, one after the other.
def host_rules(groups: Sequence[Group]) -> Mapping[int, HostRule]:
    """Return the rule of each group that carries one, by group index.

    Spread rules that see each other's replicas become one rule. An anti-affinity rule has one place a node.
    """
    skews = defaultdict[int, dict[int, int]](dict)  # of spread rules, by term and group that carries it
    for group in groups:
        for spread in group.constraints[0].spread:
            if spread.topology_key == HOSTNAME:
                skews[spread.term][group.index] = min(
                    spread.max_skew, skews[spread.term].get(group.index, spread.max_skew)
                )
    carried = Counter(index for own in skews.values() for index in own)
    # Exact is a rule if who carries it is whom it counts, and carries no other.
    loose = {
        term
        for term, own in skews.items()
        if any(carried[index] > 1 for index in own)
        or own.keys() != {group.index for group in groups if group.matching >> term & 1}
    }
    rules: dict[int, HostRule] = {}
    for term, own in skews.items():
        seen = loose if term in loose else {term}
        rule = HostRule(min(seen), min(min(skews[each].values()) for each in seen), term not in loose)
        rules.update(dict.fromkeys(own, rule))
    for group in groups:
        for near in group.constraints[0].anti:
            if near.topology_key == HOSTNAME:
                rules[group.index] = HostRule(near.term, 1, is_exact=True)
    return rules
