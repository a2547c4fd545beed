"""Teams that share the reservations: what they own, borrow and lend, take back, and may spend."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lab.simulation.catalogue import TEAM
from lab.simulation.kernel import Chance
from lab.simulation.people.users import NAMESPACE
from reservoir.core.model.node_claim import NodeClaim, generations_of
from reservoir.core.model.team import Team

NAMES: Final = ("audio", "vision")
MORE_NAMES: Final = ("robots", "search", "speech")  # in a third of the seeds with teams
_BORROWING: Final = (None, 0, 1)
_LENDING: Final = (None, None, 0)
_RECLAIM: Final = ("Never", "LowerPriority", "Any")
_BUDGETS: Final = (None, None, "1", "3")
_SPOT_CPUS: Final = (None, None, "3", "7", "16")  # two small replicas, a large one, several


def team_manifests(chance: Chance) -> Sequence[Mapping[str, Any]]:
    """Return the teams of a seed."""
    names = NAMES if chance.between("owners", 0, 2) else (*NAMES, *MORE_NAMES)
    manifests = [_manifest(name, chance) for name in names]
    for manifest in manifests:
        cpus = _SPOT_CPUS[chance.between("quotas of resources", 0, len(_SPOT_CPUS) - 1)]
        if cpus is not None:
            manifest["spec"]["quotas"].append(
                {"capacityTypes": ["spot"], "resource": "cpu", "nominalQuota": cpus}
            )
    return manifests


def namespaces_of(teams: Iterable[Team]) -> tuple[str, ...]:
    """Return where users submit workloads; the last one is nobody's."""
    return (*(name for team in teams for name in team.namespaces), NAMESPACE)


def spent_atto_usd(claims: Iterable[NodeClaim], team: Team) -> int:
    """Return what of these nodes that were bought is a team's, an hour: by the dominant share of each that it takes."""
    total = 0
    for claim in claims:
        notes = generations_of(claim.placed_with, claim.placements)
        are_known = all(note.share for note in notes)  # an earlier release notes none
        taken = {note: note.count * (note.share if are_known else 1) for note in notes}
        own = sum(
            part
            for note, part in taken.items()
            if note.workload_key.partition("/")[0] in team.namespaces
        )
        if claim.is_live and claim.lease is None and own:
            total += claim.price_atto_usd_per_hour * own // sum(taken.values())
    return total


def _manifest(name: str, chance: Chance) -> dict[str, Any]:
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
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Team",
        "metadata": {"name": name},
        "spec": spec,
    }
