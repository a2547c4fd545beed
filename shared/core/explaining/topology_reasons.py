"""Which topology rule keeps replicas from every place, what holds it back, and what would help."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.scheduling_terms.taint import untolerated
from shared.core.solver.problem.catalogue import Entry
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.topology import Constraints, SpreadTerm
from shared.core.solver.solution.partial_plan import PartialPlan

_DOMAINS_SHOWN = 3


def topology_message(state: PartialPlan, group: Group) -> str | None:
    """Return the rule that binds, in words; None when only rules between hosts can be in the way."""
    return next(_messages(state, group, group.constraints[-1]), None)


def _messages(state: PartialPlan, group: Group, constraints: Constraints) -> Iterator[str]:
    for spread in constraints.spread:
        if spread.topology_key != HOSTNAME:
            yield from _of_spread(state, group, spread)
    reachable = list(_reachable(state, group))
    yield from _of_affinity(state, constraints, reachable)
    yield from _of_anti_affinity(state, constraints, reachable)


def _of_affinity(state: PartialPlan, constraints: Constraints, reachable: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for near in constraints.affinity:
        if near.topology_key == HOSTNAME or near.matches_self:
            continue
        matched = state.ledger.by_term[near.term].matched
        if not any(matched.get(labels.get(near.topology_key, ""), 0) for labels in reachable):
            yield (
                f"affinity: nothing that it must be near runs in a {near.topology_key} where it may run"
                f"{_shown(domain for domain, count in matched.items() if count)}"
            )


def _of_anti_affinity(
    state: PartialPlan, constraints: Constraints, reachable: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    for near in constraints.anti:
        if near.topology_key == HOSTNAME:
            continue
        matched = state.ledger.by_term[near.term].matched
        where = {labels.get(near.topology_key, "") for labels in reachable}
        if where and all(matched.get(domain, 0) for domain in where):
            yield f"anti-affinity: in every {near.topology_key} where it may run{_shown(where)} is one that it avoids"


# Branches: one explanation after the other; the first that holds is told.
def _of_spread(state: PartialPlan, group: Group, spread: SpreadTerm) -> Iterator[str]:
    """Tell which domain holds a spread back: the emptiest ones, if this work can have nothing there."""
    key, matched = spread.topology_key, state.ledger.by_term[spread.term].matched
    reachable = {labels[key] for labels in _reachable(state, group) if key in labels}
    if any(state.ledger.spread_room(spread, domain) for domain in reachable):
        return
    if spread.min_domains is not None and len(spread.domains) < spread.min_domains:
        yield (
            f"spread over {key}: minDomains asks for {spread.min_domains}, and there are {len(spread.domains)}"
            f"{_shown(spread.domains)}"
        )
        return
    lowest = min((matched.get(domain, 0) for domain in spread.domains), default=0)
    holding = sorted(it for it in spread.domains - reachable if matched.get(it, 0) == lowest)
    if not holding:
        return
    shown = ", ".join(holding[:_DOMAINS_SHOWN])
    yield (
        f"spread over {key} with maxSkew {spread.max_skew}: {shown} has {lowest} of these replicas and can get none"
        f" ({_why_unreachable(state, group, key, holding[0])})"
    )


def _why_unreachable(state: PartialPlan, group: Group, key: str, domain: str) -> str:
    """Say why nothing in the domain is to be had for this work, and what would help."""
    selling: dict[int, Entry] = {
        entry.index: entry for entry, labels in state.catalogue.places if labels.get(key) == domain
    }
    if not selling:
        return "no pool sells anything there"
    tolerations = group.levels[-1].selection.tolerations
    refused: dict[str, str] = {}
    for entry in selling.values():
        binding = entry.taints
        taint = next(untolerated(binding, tolerations), None)
        if taint is not None:
            refused[entry.pool.name] = str(taint)
    if len(refused) == len({entry.pool.name for entry in selling.values()}):
        name = min(refused)
        return (
            f"only pool {name} sells there, whose taint {refused[name]} it does not tolerate;"
            " nodeTaintsPolicy: Honor would leave such domains out"
        )
    return "what is sold there is not for it, or not to be had now"


def _reachable(state: PartialPlan, group: Group) -> Iterator[Mapping[str, str]]:
    """Yield the labels of what this work could have: new nodes, and nodes that exist."""
    requirement_sets = group.requirement_sets[-1]
    for option in state.catalogue.options:
        if option.requirement_sets & requirement_sets:
            yield option.labels
    for bin_ in state.bins:
        if bin_.node is not None and bin_.requirement_sets & requirement_sets:
            yield bin_.labels


def _shown(domains: Iterable[str]) -> str:
    found = sorted(domain for domain in domains if domain)
    if not found:
        return ""
    more = "" if len(found) <= _DOMAINS_SHOWN else f" and {len(found) - _DOMAINS_SHOWN} more"
    return f" ({', '.join(found[:_DOMAINS_SHOWN])}{more})"
