"""Explain which places a workload could have had instead, from the snapshots of the plans that placed it."""

from dataclasses import dataclass
from typing import Final

from reservoir.core.disruption.decision_ids import DECISION_PREFIX
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.what_if.alternatives import Alternative, alternatives
from reservoir.manifests.answers.explanations import AlternativePlace, DecisionAlternatives
from reservoir.ports.history import DecisionStore
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.claims.announce import offering_detail
from reservoir.usecases.what_if.replay import read_plan, read_policy

ALTERNATIVES_MAX: Final = 20  # of one plan


@dataclass(frozen=True, slots=True)
class ExplainAlternatives:
    """Explains alternatives. ``policy`` is the deployment's, for decisions that do not say how they were made."""

    claims: NodeClaimStore
    decisions: DecisionStore
    policy: SchedulingPolicy

    def explain(self, key: str) -> list[DecisionAlternatives]:
        """Return what each plan could have chosen for the workload whose nodes it made, oldest plan first.

        Plans that are no longer kept, and plans that made the node for another workload, are left out. Raises
        ReplayError for a plan, or its planner's settings, that this release cannot read, and UnreadableRowsError.
        """
        hosts = [claim for claim in self.claims.list_live() if claim.hosts(key)]
        found = []
        for plan_id in sorted(
            {claim.plan_id for claim in hosts if claim.plan_id is not None}
        ):
            stored = self.decisions.load(plan_id)
            if stored is None or plan_id.startswith(f"{DECISION_PREFIX}-"):
                continue
            decision, snapshot, plan = read_plan(*stored)
            policy_json = decision.policy_json
            policy = (
                self.policy if policy_json is None else read_policy(decision, policy_json)
            )
            places = alternatives(
                snapshot,
                plan,
                key,
                now=decision.made_at,
                policy=policy,
                limit=ALTERNATIVES_MAX,
            )
            if places:
                found.append(
                    DecisionAlternatives(
                        plan_id=plan_id,
                        made_at=decision.made_at,
                        places=[_place(place) for place in places],
                    )
                )
        return sorted(found, key=lambda each: (each.made_at, each.plan_id))


def _place(place: Alternative) -> AlternativePlace:
    return AlternativePlace(
        node_pool=place.node_pool_name,
        offering=offering_detail(place.offering),
        chosen=place.chosen_count,
        nodes=place.node_count,
        price_micro_usd_per_hour=place.price_micro_usd_per_hour,
        reason=place.reason,
    )
