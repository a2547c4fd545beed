"""Answers in the form that programs read."""

from collections.abc import Iterable, Mapping

from reservoir.core.model.workload import Workload
from reservoir.core.what_if.outcome import DemandOutcome, Displaced, PlannedPlace
from reservoir.manifests.answers.explanations import WaitingReplicas
from reservoir.manifests.answers.what_if import (
    DisplacedWorkload,
    DriftingNodeDetail,
    ImpactDetail,
    NeverLaunchingPool,
    ReplayAnswer,
    WhatIfAnswer,
    WhatIfOutcome,
    WhatIfPlace,
    WhatIfWorkload,
)
from reservoir.usecases.claims.announce import offering_detail, workload_ref
from reservoir.usecases.claims.waiting import waiting
from reservoir.usecases.what_if.estimate_starts import start_described
from reservoir.usecases.what_if.plan_demand import Starts, WhatIf
from reservoir.usecases.what_if.policy_impact import PolicyImpact
from reservoir.usecases.what_if.replay import Replayed


def described(answer: WhatIf) -> WhatIfAnswer:
    """Return an answer in its wire form."""
    return WhatIfAnswer(
        asked_at=answer.asked_at,
        present=_outcome(
            answer.present, answer.workloads, answer.placed, answer.present_starts
        ),
        edited=None
        if answer.edited is None
        else _outcome(answer.edited, answer.workloads, answer.placed, answer.edited_starts),
        assumptions=list(answer.notes),
    )


def replay_described(told: Replayed) -> ReplayAnswer:
    """Return what a replay showed in its wire form."""
    placed = {item.key: item.replicas - told.pending[item.key] for item in told.workloads}
    return ReplayAnswer(
        plan_id=told.plan_id,
        made_at=told.made_at,
        same=None if told.is_edited else told.replayed is None,
        why=told.why,
        stored=_outcome(told.stored, told.workloads, placed, {}),
        replayed=None
        if told.replayed is None
        else _outcome(told.replayed, told.workloads, placed, {}),
        assumptions=list(told.notes),
    )


def impact_described(impact: PolicyImpact) -> ImpactDetail:
    """Return the impact of a change of policy in its wire form."""
    return ImpactDetail(
        drifting_nodes=[
            DriftingNodeDetail(
                node_claim=node.claim_id,
                reason=node.reason,
                reserved=node.is_reserved,
                price_micro_usd_per_hour=node.price_micro_usd_per_hour,
            )
            for node in impact.drifting
        ],
        drifting_micro_usd_per_hour=sum(
            node.price_micro_usd_per_hour for node in impact.drifting
        ),
        never_launching=[
            NeverLaunchingPool(node_pool=pool.node_pool_name, reason=pool.reason)
            for pool in impact.never_launching
        ],
        assumptions=list(impact.notes),
    )


def _outcome(
    outcome: DemandOutcome,
    workloads: Iterable[Workload],
    placed: Mapping[str, int],
    starts: Starts,
) -> WhatIfOutcome:
    places: dict[str, list[WhatIfPlace]] = {}
    waits: dict[str, list[WaitingReplicas]] = {}
    for place in outcome.places:
        places.setdefault(place.workload_key, []).append(_place(place))
    for item in outcome.waiting:
        waits.setdefault(item.workload_key, []).append(waiting(item))
    return WhatIfOutcome(
        workloads=[
            WhatIfWorkload(
                workload=workload_ref(workload.key),
                replicas=workload.replicas,
                placed=placed[workload.key],
                places=places.get(workload.key, []),
                waiting=waits.get(workload.key, []),
                starts=start_described(starts.get(workload.key)),
            )
            for workload in sorted(workloads, key=lambda workload: workload.key)
        ],
        displaced=[_displaced(item) for item in outcome.displaced],
        added_micro_usd_per_hour=outcome.added_micro_usd_per_hour,
        notes=list(outcome.notes),
    )


def _place(place: PlannedPlace) -> WhatIfPlace:
    return WhatIfPlace(
        replicas=place.replica_count,
        node_claim=place.claim_id,
        node_pool=place.node_pool_name or None,
        offering=None if place.offering is None else offering_detail(place.offering),
        nodes=place.node_count,
        price_micro_usd_per_hour=place.price_micro_usd_per_hour,
    )


def _displaced(item: Displaced) -> DisplacedWorkload:
    return DisplacedWorkload(
        workload=workload_ref(item.workload_key),
        replicas=item.replica_count,
        reserved_replicas=item.reserved_count,
        waiting=None if item.waiting is None else waiting(item.waiting),
    )
