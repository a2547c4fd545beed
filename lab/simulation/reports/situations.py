"""In which situations mishaps met the nodes: the state of a NodeClaim, and how its team stands."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final

from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.faults import Faults
from lab.simulation.invariants.base import Invariant
from lab.simulation.world import World
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.team import Team, by_namespace

MISHAPS: Final = tuple(field.name for field in fields(Faults))
STATES: Final = (
    ClaimState.PLANNED,
    ClaimState.LAUNCHING,
    ClaimState.LAUNCHED,
    ClaimState.RUNNING,
    ClaimState.DRAINING,
    ClaimState.TERMINATING,
)


class Standing(StrEnum):
    """How the team of a node's work stands."""

    NO_TEAMS = "no teams"  # the seed has none
    NOBODYS = "nobody's"  # empty, or of a namespace that belongs to no team
    BOUGHT = "bought"  # the team's, and no reserved unit
    OWN = "own"  # a reserved unit; the team uses no more than it owns
    BORROWED = "borrowed"  # a reserved unit; the team uses more than it owns


Situation = tuple[ClaimState, str, Standing]


class Situations(Invariant):
    """Counts what each mishap met; it never fails."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.met: Counter[Situation] = Counter()
        self._mishaps = 0

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        self._look()

    def ended(self, run: Run) -> None:
        self._look()

    def _look(self) -> None:
        """Count the mishaps since the last look, each for every node that there is."""
        came_true = self.world.chance.came_true
        kinds = {kind for kind, _ in came_true[self._mishaps :]}
        self._mishaps = len(came_true)
        if not kinds:
            return
        claims = self.world.state.claim_rows.values()
        for state, standing in standings(claims, self.world.teams):
            self.met.update((state, kind, standing) for kind in kinds)


def standings(
    claims: Iterable[NodeClaim], teams: Iterable[Team]
) -> set[tuple[ClaimState, Standing]]:
    """Return in which states nodes are that have not ended, each with how the team of the first workload stands."""
    owners = by_namespace(teams)
    of_team = [(it, _team_of(it, owners)) for it in claims if it.state in STATES]
    used = Counter(
        team.name for claim, team in of_team if team is not None and claim.lease is not None
    )
    if not owners:
        return {(claim.state, Standing.NO_TEAMS) for claim, _ in of_team}
    return {(claim.state, _standing(claim, team, used)) for claim, team in of_team}


def _team_of(claim: NodeClaim, owners: Mapping[str, Team]) -> Team | None:
    if not claim.placements:
        return None
    return owners.get(claim.placements[0].workload_key.partition("/")[0])


def _standing(claim: NodeClaim, team: Team | None, used_units: Counter[str]) -> Standing:
    if team is None:
        return Standing.NOBODYS
    if claim.lease is None:
        return Standing.BOUGHT
    owned_units = sum(quota.nominal_units for quota in team.quotas)
    return Standing.OWN if used_units[team.name] <= owned_units else Standing.BORROWED


def summary(met: Counter[Situation]) -> str:
    """Say how much was met, and which mishap never met nodes in which states."""
    pairs = {(state, kind) for state, kind, _ in met}
    never = [
        f"{kind} ({', '.join(missing)})"
        for kind in MISHAPS
        if (missing := [state for state in STATES if (state, kind) not in pairs])
    ]
    of_all = len(STATES) * len(MISHAPS) * len(Standing)
    known = sum(situation[1] in MISHAPS for situation in met)
    return (
        f"met {known} of {of_all} situations: a state of a NodeClaim, a mishap, how its team stands; "
        f"never, with any team: {'; '.join(never) or 'none'}"
    )
