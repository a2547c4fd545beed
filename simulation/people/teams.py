"""Teams that share the reservations: what they own, borrow and lend, take back, and may spend."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simulation.catalogue import TEAM
from simulation.kernel import Chance
from simulation.people.users import NAMESPACE

NAMES: Final = ("audio", "vision")
NAMESPACES: Final = (*NAMES, NAMESPACE)  # the last one is nobody's
_BORROWING: Final = (None, 0, 1)
_LENDING: Final = (None, None, 0)
_RECLAIM: Final = ("Never", "LowerPriority", "Any")
_BUDGETS: Final = (None, None, "1", "3")


def team_manifests(chance: Chance) -> Sequence[Mapping[str, Any]]:
    """Return the teams of a seed."""
    return [_manifest(name, chance) for name in NAMES]


def _manifest(name: str, chance: Chance) -> Mapping[str, Any]:
    def one_of(choices: Sequence[Any]) -> Any:
        return choices[chance.between("teams", 0, len(choices) - 1)]

    quota = {
        "capacityReservationSelectorTerms": [{"tags": TEAM}],
        "nominalQuota": chance.between("teams", 0, 3),
        "borrowingLimit": one_of(_BORROWING),
        "lendingLimit": one_of(_LENDING),
    }
    budget = one_of(_BUDGETS)
    spec = {
        "namespaces": [name],
        "quotas": [{key: value for key, value in quota.items() if value is not None}],
        "reclaimWithinCohort": one_of(_RECLAIM),
        "fairSharing": {"weight": chance.between("teams", 1, 2)},
        **({} if budget is None else {"budget": {"usdPerHour": budget}}),
    }
    return {"apiVersion": "reservoir/v1", "kind": "Team", "metadata": {"name": name}, "spec": spec}
