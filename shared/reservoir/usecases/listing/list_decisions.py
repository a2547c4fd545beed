"""List decisions."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from reservoir.core.disruption.decision_ids import LATEST_DECISION, decision_id
from reservoir.core.model.decision_summary import DecisionSummary
from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.answers.listed import DecisionRow, DecisionRowStatus, Named
from reservoir.ports.history import DecisionStore
from reservoir.ports.state import NodeClaimStore


@dataclass(frozen=True, slots=True)
class ListedDecision:
    """A decision, and the nodes that it launched or chose to end: live ones, and others that were asked for."""

    row: DecisionRow
    nodes: tuple[NodeClaim, ...]


@dataclass(frozen=True, slots=True)
class ListDecisions:
    """Lists the decisions behind live and recent nodes; others by name, for as long as they are kept.

    Decisions have no index by time, and a scan would read a fortnight of them. Nodes name the decisions that matter:
    the one that launched them, and the one that chose them to end.
    """

    decisions: DecisionStore
    claims: NodeClaimStore

    def list(
        self, names: Collection[str] = (), lately: Collection[str] = ()
    ) -> list[ListedDecision]:
        """Return the decisions of these names, newest first; without names, of live nodes and disruption's last.

        ``lately``: further claims whose decisions are listed, ended or not. Raises UnreadableRowsError for decisions,
        and for claims of ``lately``, that cannot be read.
        """
        nodes: dict[str, list[NodeClaim]] = {LATEST_DECISION: []}
        live = {claim.id: claim for claim in self.claims.list_live()}
        ended = self.claims.get_many(set(lately) - live.keys())
        for claim in (*live.values(), *ended.values()):
            for name in _made_by(claim):
                nodes.setdefault(name, []).append(claim)
        found = self.decisions.summaries(names or nodes)
        newest_first = sorted(
            found.values(), key=lambda each: (each.made_at, each.plan_id), reverse=True
        )
        return [_listed(each, nodes.get(each.plan_id, ())) for each in newest_first]


def _listed(decision: DecisionSummary, nodes: Iterable[NodeClaim]) -> ListedDecision:
    claims = tuple(sorted(nodes, key=lambda claim: claim.id))
    status = DecisionRowStatus(
        made_at=decision.made_at,
        summary=dict(decision.counts),
        nodes=[claim.id for claim in claims if claim.is_live],
    )
    return ListedDecision(
        DecisionRow(metadata=Named(name=decision.plan_id), status=status), claims
    )


def _made_by(claim: NodeClaim) -> Iterator[str]:
    if claim.plan_id is not None:
        yield claim.plan_id
    if claim.disruption is not None:
        yield decision_id(claim.disruption.command_id)
