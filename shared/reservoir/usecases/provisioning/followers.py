"""Notes on claims whose replicas follow others that have not left their nodes yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.model.node_claim import NodeClaim, Succession
from reservoir.core.model.snapshot import count_of
from reservoir.core.node_life import drain, succession
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.provisioning.gather_snapshot import Gathered


@dataclass(frozen=True, slots=True)
class Followers:
    """Finds the replicas that the replicas of one plan follow."""

    node_claims: NodeClaimStore
    gathered: Gathered
    now: datetime

    def noted(
        self,
        claims: Sequence[NodeClaim],
        existing: Sequence[tuple[NodeClaim, NodeClaim]],
    ) -> tuple[list[NodeClaim], list[tuple[NodeClaim, NodeClaim]]]:
        """Return new claims, and existing ones before and after they grow, with the replicas that theirs follow.

        Raises UnreadableRowsError.
        """
        empty = [(replace(claim, placements=()), claim) for claim in claims]
        added: dict[str, dict[str, int]] = {}
        for before, after in (*empty, *existing):
            for key, count in succession.gained(before, after).items():
                added.setdefault(key, {})[after.id] = count
        notes: dict[str, list[Succession]] = {}
        for key, counts in sorted(added.items()):
            for claim_id, found in self._followed(key, counts).items():
                notes.setdefault(claim_id, []).append(found)
        return (
            [_with(claim, notes) for claim in claims],
            [(before, _with(after, notes)) for before, after in existing],
        )

    def _followed(self, key: str, counts: Mapping[str, int]) -> Mapping[str, Succession]:
        record = self.gathered.records.get(key)
        is_held = (
            record is not None
            and record.workload is not None
            and record.workload.is_handed_over
        )
        hosts = [claim for claim in self.gathered.claims.values() if _hosts(claim, key)]
        placed = sum(count_of(key, claim.placements) for claim in hosts)
        if is_held and record is not None and placed != record.placed_count:
            # The listing lags: it may show one that drains as one that runs.
            hosts = list(self.node_claims.get_many([it.id for it in hosts]).values())
        return succession.arriving(key, counts, hosts, self.now, is_held=is_held)


def _hosts(claim: NodeClaim, key: str) -> bool:
    return claim.hosts(key) or drain.awaited_count(claim, key) > 0


def _with(claim: NodeClaim, notes: Mapping[str, Sequence[Succession]]) -> NodeClaim:
    for found in notes.get(claim.id, ()):
        claim = succession.with_succession(claim, found)
    return claim
