"""Labels that a pool leaves open: which values its nodes could be given, as far as any workload cares (R-14, R-68)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product

from shared.core.model.instance_type import InstanceType
from shared.core.scheduling_terms.labels import WELL_KNOWN
from shared.core.scheduling_terms.requirement import Operator, Requirement
from shared.core.scheduling_terms.requirements import Requirements

# A pool is repeated once per combination of values; beyond this many the later combinations are not offered.
_COMBINATIONS_MAX = 64


def variants(
    offered: Requirements, types: Sequence[InstanceType], asked: Iterable[Requirement]
) -> Iterator[Requirements]:
    """Yield what a pool offers once per distinguishable kind of node that it could make, with settled labels.

    A key is open when workloads ask about it and neither the pool nor the instance types settle its value, so that
    two workloads could want different values: they must then not meet on one node (S-145).
    """
    by_key = defaultdict[str, list[Requirement]](list)
    for requirement in asked:
        by_key[requirement.key].append(requirement)
    open_keys = [key for key in sorted(by_key) if _is_open(offered.get(key), types, by_key[key])]
    choices = [_choices(offered[key], types, by_key[key], may_lack=key not in offered) for key in open_keys]
    for chosen in islice(product(*choices), _COMBINATIONS_MAX):
        yield Requirements({**offered, **{choice.key: choice for choice in chosen}})


def _is_open(of_pool: Requirement | None, types: Sequence[InstanceType], asked: Sequence[Requirement]) -> bool:
    key = asked[0].key
    names_values = any(not requirement.complement and requirement.values for requirement in asked)
    # An unknown key has no values to choose from, and nobody can disagree about one that nobody asks a value of.
    if of_pool is None and not (key in WELL_KNOWN and names_values):
        return False
    return not _is_settled(of_pool) and not all(_is_settled(item.requirements.get(key)) for item in types)


def _is_settled(requirement: Requirement | None) -> bool:
    return requirement is not None and not requirement.complement and len(requirement.values) <= 1


# Branches: comprehensions of a line each around one choice.
def _choices(
    offered: Requirement, types: Sequence[InstanceType], asked: Sequence[Requirement], *, may_lack: bool
) -> list[Requirement]:
    """Return one allowed value per distinguishable behaviour towards workloads and types, and at last none at all."""
    key = offered.key
    others = [*asked, *dict.fromkeys(item.requirements[key] for item in types if key in item.requirements)]
    named = {value for each in (offered, *others) if not each.complement for value in each.values}
    unnamed = Requirement(key, True, frozenset(named))
    candidates = named.union(offered.intersection(each).any_value() for each in (offered, unnamed, *others))
    kinds: dict[tuple[bool, ...], str] = {}
    for value in sorted(candidates - {""}):
        if offered.has(value):
            kinds.setdefault(tuple([each.has(value) for each in others]), value)
    found = [Requirement.new(key, Operator.IN, (value,)) for value in sorted(kinds.values())]
    return [*found, Requirement.new(key, Operator.DOES_NOT_EXIST)] if may_lack else found
