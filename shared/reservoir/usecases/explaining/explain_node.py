"""Explains a node: the decision that made it, and the last statement of disruption about it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from reservoir.core.disruption.command import DisruptionCommand, DisruptionDecision
from reservoir.core.disruption.decision_ids import (
    DECISION_PREFIX,
    LATEST_DECISION,
    decision_id,
)
from reservoir.core.model.node_claim import DisruptionMark, DrainReason, NodeClaim
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan, PlannedNodes
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.serialisation.json_codec import loads
from reservoir.manifests.answers.explanations import NodeExplanation, Origin, Standing
from reservoir.ports.history import Decision, DecisionStore
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.claims.announce import node_detail, placed_workloads

_INSTANCE_PREFIX: Final = "i-"
_SEEN_MICRO_USD: Final = 100  # the last of four decimals


@dataclass(frozen=True, slots=True)
class ExplainNode:
    """Explains nodes, including those that ended within the last days."""

    claims: NodeClaimStore
    decisions: DecisionStore

    def explain(self, name: str) -> NodeExplanation | None:
        """Explain the node with this NodeClaim id or instance id; None when it is not known (any more).

        Raises UnreadableRowsError for the claim, or a decision about it.
        """
        claim = self._find(name)
        if claim is None:
            return None
        return NodeExplanation(
            node=node_detail(claim),
            state=claim.state,
            created_at=claim.created_at,
            running_at=claim.running_at,
            terminated_at=claim.terminated_at,
            failure=claim.failure,
            workloads=placed_workloads(claim.placements, claim.correlation_ids),
            origin=self._origin(claim),
            disruption=self._standing(claim),
        )

    def _find(self, name: str) -> NodeClaim | None:
        if name.startswith(_INSTANCE_PREFIX):
            return self.claims.find_by_instance([name]).get(name)
        return self.claims.get(name)

    # --- why it exists

    def _origin(self, claim: NodeClaim) -> Origin:
        by_disruption = (claim.plan_id or "").startswith(f"{DECISION_PREFIX}-")
        found = None if claim.plan_id is None else self.decisions.load(claim.plan_id)
        origin = Origin(
            kind="disruption" if by_disruption else "provisioning",
            text="its decision is no longer stored",
            decision_id=claim.plan_id,
            decided_at=None if found is None else found[0].made_at,
            replaces=list(claim.replaces),
            relaxed=list(claim.relaxed),
        )
        if found is None:
            return origin
        command = _command(found[0], claim.replaces) if by_disruption else None
        launches = (
            loads(Plan, found[0].plan_json).launches
            if command is None
            else command.replacements
        )
        planned = _planned(launches, claim)
        text = _why_planned(planned, claim)
        if command is not None:
            text = f"replaces {', '.join(command.claim_ids)}: {command.explanation}; {text}"
        return origin.model_copy(
            update={
                "text": text,
                "alternatives": 0 if planned is None else len(planned.alternatives),
            }
        )

    # --- the reasons of disruption

    def _standing(self, claim: NodeClaim) -> Standing:
        mark, drain = claim.disruption, claim.drain
        if drain is None and not claim.is_live:
            return Standing(status="gone", text=claim.failure or "its instance ended")
        replaced_by = [
            live.id for live in self.claims.list_live() if claim.id in live.replaces
        ]
        if drain is None:
            if mark is None:
                return self._staying(claim)
            text = _listed(self._why_marked(claim, mark), self._progress(claim))
            return Standing(
                status="being-replaced",
                text=text or f"drained for {mark.reason.value}",
                decision_id=decision_id(mark.command_id),
                decided_at=mark.started_at,
                reason=mark.reason,
                replaced_by=replaced_by,
            )
        why = None if mark is None else self._why_marked(claim, mark)
        text = _listed(why, _by_hand(claim))
        return Standing(
            status="draining" if claim.is_live else "gone",
            text=text or f"drained for {drain.reason.value}",
            decision_id=None if mark is None else decision_id(mark.command_id),
            decided_at=drain.notified_at if mark is None else mark.started_at,
            reason=drain.reason,
            deadline=drain.deadline,
            replaced_by=replaced_by,
        )

    def _why_marked(self, claim: NodeClaim, mark: DisruptionMark) -> str | None:
        """Say why disruption chose the node, as long as its decision is stored."""
        if not mark.command_id.startswith(DECISION_PREFIX):
            return "it kept a free unit warm, and others need the unit"
        known = self.decisions.load(decision_id(mark.command_id))
        command = None if known is None else _command(known[0], [claim.id])
        return None if command is None else _with_saving(command)

    def _staying(self, claim: NodeClaim) -> Standing:
        """Return the reason that the last pass gave."""
        latest = self.decisions.load(LATEST_DECISION)
        if latest is None:
            return Standing(status="stays", text="disruption has not looked at it yet")
        refusal = self._refusal(claim, latest[0])
        return Standing(
            status="stays",
            text=refusal or "the last pass had not seen it yet",
            decision_id=LATEST_DECISION,
            decided_at=latest[0].made_at,
        )

    def _progress(self, claim: NodeClaim) -> str | None:
        latest = self.decisions.load(LATEST_DECISION)
        return None if latest is None else self._refusal(claim, latest[0])

    def _refusal(self, claim: NodeClaim, decision: Decision) -> str | None:
        refusals = loads(DisruptionDecision, decision.plan_json).refusals
        return next(
            (refusal.reason for refusal in refusals if refusal.claim_id == claim.id), None
        )


def _listed(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _command(decision: Decision, claim_ids: Collection[str]) -> DisruptionCommand | None:
    """Return the decision's command about any of the claims."""
    commands = loads(DisruptionDecision, decision.plan_json).commands
    return next(
        (command for command in commands if set(command.claim_ids) & set(claim_ids)), None
    )


def _with_saving(command: DisruptionCommand) -> str:
    """Say why, and what consolidation saves by it, if that can be seen."""
    micro = command.savings_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD
    if command.reason is not DisruptionReason.UNDERUTILIZED or micro < _SEEN_MICRO_USD:
        return command.explanation
    others = len(command.claim_ids) - 1
    together = ""
    if others:
        together = ", with another node" if others == 1 else f", with {others} other nodes"
    return f"{command.explanation}{together}, which saves {micro / 1e6:.4f} USD an hour"


def _by_hand(claim: NodeClaim) -> str | None:
    """Return who asked for the drain, and why."""
    if (
        claim.drain is None
        or claim.drain.reason is not DrainReason.REQUESTED
        or not claim.operations
    ):
        return None
    asked = claim.operations[-1]
    return f"{asked.verb} by {asked.by}: {asked.reason}"


def _planned(launches: tuple[PlannedNodes, ...], claim: NodeClaim) -> PlannedNodes | None:
    """Return the planned offering; EC2 chooses among the alternatives, so the claim may have become one of them."""
    mine = [
        planned for planned in launches if planned.node_pool_name == claim.node_pool_name
    ]
    exact = [planned for planned in mine if planned.offering == claim.offering]
    return next(
        iter(
            [
                *exact,
                *(planned for planned in mine if claim.offering in planned.alternatives),
            ]
        ),
        None,
    )


def _why_planned(planned: PlannedNodes | None, claim: NodeClaim) -> str:
    if _has_moved_in(claim):
        return (
            "no reserved unit was free for it, so it was bought on demand; EC2 has moved it into"
            f" {claim.offering.reservation_id} since, without a restart"
        )
    if claim.offering.reservation_id is not None:
        return f"a unit of reservation {claim.offering.reservation_id} was free, and is paid for anyway"
    micro = claim.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD
    price = f"{claim.offering.capacity_type.value} at {micro / 1e6:.4f} USD an hour"
    if planned is None or not planned.alternatives:
        return f"{price}; nothing else could hold its replicas at the time"
    return f"{price}; {len(planned.alternatives)} other offerings could hold its replicas and cost as much or more"


def _has_moved_in(claim: NodeClaim) -> bool:
    """Whether it was launched at a group, on demand, and is in a reservation now."""
    return claim.reclaim_group_arn is not None and claim.offering.reservation_id is not None
