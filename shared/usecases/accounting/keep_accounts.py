"""Write down what instances cost whom: when somebody tells of a node, and for all of them every few minutes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from shared.core.model.node_claim import NodeClaim
from shared.core.model.team import by_namespace
from shared.core.sharing.accounts import NOBODY, TeamOf, read
from shared.ports.accounts import AccountStore
from shared.ports.policy import PolicyKind, PolicyStore
from shared.ports.state import ConflictError, NodeClaimStore, UnreadableRowsError
from shared.ports.system import Clock
from shared.usecases.policy.policy_objects import policy_of

# Two recorders hear of one node at once: one of them looks again.
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class KeepAccounts:
    """Reads meters. What was written down of an instance is never written down again."""

    accounts: AccountStore
    claims: NodeClaimStore
    policy: PolicyStore
    clock: Clock

    def note(self, claim_ids: Collection[str]) -> int:
        """Read the meters of some nodes; return how many had something to write down.

        Raises ConflictError when every race was lost.
        """
        if not claim_ids:
            return 0
        team_of = teams_of(self.policy)
        return sum(self._note(claim_id, team_of) for claim_id in sorted(claim_ids))

    def sweep(self) -> int:
        """Read the meters of all nodes: events may be lost, and days end."""
        live = {claim.id: claim for claim in self.claims.list_live() if claim.instance_id is not None}
        meters, team_of, now = self.accounts.meters(), teams_of(self.policy), self.clock.now()
        moved = [key for key, claim in live.items() if read(meters.get(key), claim, now, team_of) is not None]
        return sum(self._note(key, team_of) for key in sorted({*moved, *(meters.keys() - live.keys())}))

    def _note(self, claim_id: str, team_of: TeamOf) -> bool:
        """Write down everything that there is of one node; whether there was anything."""
        written, lost = False, 0
        while True:
            claim, meter = self._claim(claim_id), self.accounts.meter(claim_id)
            reading = None if claim is None else read(meter, claim, self.clock.now(), team_of)
            if claim is None or reading is None:
                return written
            try:
                self.accounts.write(claim_id, meter, reading)
            except ConflictError:
                if claim.terminated_at is not None and meter is None and self.accounts.meter(claim_id) is None:
                    return written  # that it ended was written down before
                lost += 1
                if lost == _TRIES:
                    raise
            else:
                written = True
                if reading.meter is None:
                    return written

    def _claim(self, claim_id: str) -> NodeClaim | None:
        try:
            return self.claims.get(claim_id)
        except UnreadableRowsError:
            return None  # its meter runs on until somebody can read it


def teams_of(policy: PolicyStore) -> TeamOf:
    """Return what names the team of a namespace."""
    rows = [row for row in policy.list_all() if row.kind is PolicyKind.TEAM]
    owners = by_namespace(policy_of(rows).teams)

    def team_of(namespace: str) -> str:
        team = owners.get(namespace)
        return NOBODY if team is None else team.name

    return team_of
