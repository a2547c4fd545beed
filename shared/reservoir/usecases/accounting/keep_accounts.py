"""Records what instances cost each team: when a node changes, and for all nodes every few minutes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.sharing.accounts import Meter, TeamOf, owners, read
from reservoir.ports.accounts import AccountStore
from reservoir.ports.policy import PolicyKind, PolicyStore
from reservoir.ports.state import ConflictError, NodeClaimStore, UnreadableRowsError
from reservoir.ports.system import Clock
from reservoir.usecases.policy.policy_objects import policy_of

# Two recorders hear of one node at once: one of them looks again.
_TRIES: Final = 4
# As many as BatchGetItem takes. When a day ends all nodes are recorded: the rows of more nodes at once would be older
# by the time they are used.
_READ_TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class KeepAccounts:
    """Reads meters. What was recorded of an instance is never recorded again."""

    accounts: AccountStore
    claims: NodeClaimStore
    policy: PolicyStore
    clock: Clock

    def note(self, claim_ids: Collection[str]) -> int:
        """Read the meters of some nodes; return how many had something to write down.

        A node whose claim or meter cannot be read is left alone. Raises ConflictError when every race was lost.
        """
        if not claim_ids:
            return 0
        team_of = teams_of(self.policy)
        claims = self._claims(sorted(set(claim_ids)))
        return self._note_together(claims, self._meters(claims.keys()), team_of)

    def sweep(self) -> int:
        """Read the meters of all nodes, as ``note`` does: events may be lost, and days end.

        Raises ConflictError as ``note`` does.
        """
        live = {
            claim.id: claim
            for claim in self.claims.list_live()
            if claim.instance_id is not None
        }
        meters = self.accounts.meters()
        team_of = teams_of(self.policy)
        now = self.clock.now()
        moved = {
            key
            for key, claim in live.items()
            if read(meters.get(key), claim, now, team_of) is not None
        }
        keys = sorted(moved | (meters.keys() - live.keys()))
        return sum(
            self._note_together(
                self._claims(keys[first : first + _READ_TOGETHER]), meters, team_of
            )
            for first in range(0, len(keys), _READ_TOGETHER)
        )

    def _note_together(
        self, claims: Mapping[str, NodeClaim], meters: Mapping[str, Meter], team_of: TeamOf
    ) -> int:
        """Write down what there is of some nodes; return of how many there was anything."""
        now = self.clock.now()
        found = {
            key: read(meters.get(key), claim, now, team_of) for key, claim in claims.items()
        }
        readings = {key: reading for key, reading in found.items() if reading is not None}
        moved = self.accounts.write_many(meters, readings)
        noted = set(moved)
        for key, reading in readings.items():
            # A run that lost a race reads again; and an instance that was not recorded for days has more to record.
            meter = reading.meter if key in moved else meters.get(key)
            if (key not in moved or meter is not None) and self._note(
                key, team_of, claims[key], meter
            ):
                noted.add(key)
        return len(noted)

    def _note(
        self, claim_id: str, team_of: TeamOf, claim: NodeClaim | None, meter: Meter | None
    ) -> bool:
        """Record everything that is open of one node, alone; return whether there was anything.

        It begins with the rows that the caller has read: an outdated row loses the race, and is read again.
        """
        written, lost = False, 0
        while claim is not None:
            reading = read(meter, claim, self.clock.now(), team_of)
            if reading is None:
                break
            try:
                self.accounts.write(claim_id, meter, reading)
            except ConflictError:
                try:
                    before, meter = meter, self.accounts.meter(claim_id)
                except UnreadableRowsError:
                    break  # its meter runs on until it can be read
                if claim.terminated_at is not None and before is None and meter is None:
                    break  # that it ended was written down before
                lost += 1
                if lost == _TRIES:
                    raise
                claim = self._claim(claim_id)
            else:
                written, meter = True, reading.meter
                if meter is None:
                    break
        return written

    def _meters(self, claim_ids: Collection[str]) -> Mapping[str, Meter]:
        try:
            return self.accounts.meters_of(claim_ids)
        except UnreadableRowsError:
            return {}  # none is as it is written, so that each is read alone

    def _claims(self, claim_ids: Sequence[str]) -> Mapping[str, NodeClaim]:
        try:
            return self.claims.get_many(claim_ids)
        except UnreadableRowsError:
            each = {claim_id: self._claim(claim_id) for claim_id in claim_ids}
            return {
                claim_id: claim for claim_id, claim in each.items() if claim is not None
            }

    def _claim(self, claim_id: str) -> NodeClaim | None:
        try:
            return self.claims.get(claim_id)
        except UnreadableRowsError:
            return None  # its meter runs on until it can be read


def teams_of(policy: PolicyStore) -> TeamOf:
    """Return what names the team of a namespace."""
    rows = [row for row in policy.list_all() if row.kind is PolicyKind.TEAM]
    return owners(policy_of(rows).teams)
