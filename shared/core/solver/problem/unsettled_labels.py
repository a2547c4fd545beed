"""Labels that a pool leaves open: which values its nodes could be given, as far as any workload cares (R-14, R-68)."""

from collections.abc import Iterator, Sequence, Set
from itertools import islice, product

from shared.core.model.instance_type import InstanceType
from shared.core.scheduling_terms.labels import HOSTNAME, WELL_KNOWN
from shared.core.scheduling_terms.requirement import Requirement
from shared.core.scheduling_terms.requirements import Requirements

# A pool is repeated once per combination of values; beyond this many the later combinations are not offered.
_COMBINATIONS_MAX = 64


def variants(
    pool: Requirements, types: Sequence[InstanceType], requirement_sets: Sequence[Requirements], closed: Set[str]
) -> Iterator[dict[str, str | None]]:
    """Yield one assignment of values per distinguishable kind of node that the pool could make; None: no such label.

    A key is open when workloads ask about it and neither the pool nor the instance types settle its value, so that
    two workloads could want different values: they must then not meet on one node (S-145).
    """
    asked: dict[str, list[Requirement]] = {}
    for requirement_set in dict.fromkeys(requirement_sets):
        for key, requirement in requirement_set.items():
            if key not in closed and key != HOSTNAME:
                asked.setdefault(key, []).append(requirement)
    candidates = []
    for key in sorted(asked):
        wanted = list(dict.fromkeys(asked[key]))
        if _is_open(key, pool, types, wanted):
            values: list[str | None] = [*_values(key, pool, types, wanted)]
            if key not in pool:
                values.append(None)
            candidates.append([(key, value) for value in values])
    return (dict(combination) for combination in islice(product(*candidates), _COMBINATIONS_MAX))


def _is_open(key: str, pool: Requirements, types: Sequence[InstanceType], asked: Sequence[Requirement]) -> bool:
    of_pool = pool.get(key)
    if of_pool is None:
        # An unknown key has no values to choose from, and nobody can disagree about one that nobody asks a value of.
        if key not in WELL_KNOWN or all(requirement.complement or not requirement.values for requirement in asked):
            return False
    elif _is_settled(of_pool):
        return False
    return any(not _is_settled(item.requirements.get(key)) for item in types)


def _is_settled(requirement: Requirement | None) -> bool:
    return requirement is not None and not requirement.complement and len(requirement.values) <= 1


# Branches: candidates from three sources, then one of each kind.
def _values(key: str, pool: Requirements, types: Sequence[InstanceType], asked: Sequence[Requirement]) -> list[str]:
    """Return allowed values, one per distinguishable behaviour towards workloads and types, sorted."""
    of_pool = pool[key]
    of_types = list(dict.fromkeys(item.requirements[key] for item in types if key in item.requirements))
    candidates = {of_pool.any_value()}
    for requirement in (of_pool, *asked, *of_types):
        if not requirement.complement:
            candidates.update(requirement.values)
        candidates.add(of_pool.intersection(requirement).any_value())
    unlike = of_pool
    for requirement in asked:
        if not requirement.complement and unlike.complement:
            unlike = unlike.intersection(Requirement(key, True, requirement.values))
    candidates.add(unlike.any_value())
    kinds: dict[tuple[bool, ...], str] = {}
    for value in sorted(candidates):
        if value and of_pool.has(value):
            kind = tuple(requirement.has(value) for requirement in (*asked, *of_types))
            kinds.setdefault(kind, value)
    return sorted(kinds.values())
