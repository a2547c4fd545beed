"""Answers in the form that programs read."""

from shared.core.model.workload import Workload
from shared.core.what_if.outcome import DemandOutcome, Displaced, PlannedPlace
from shared.manifests.what_if import DisplacedWorkload, WhatIfAnswer, WhatIfOutcome, WhatIfPlace, WhatIfWorkload
from shared.usecases.claims.announce import offering_detail, workload_ref
from shared.usecases.claims.waiting import waiting
from shared.usecases.what_if.plan_demand import WhatIf


def described(answer: WhatIf) -> WhatIfAnswer:
    """Return the answer in its wire form."""
    return WhatIfAnswer(
        asked_at=answer.asked_at,
        present=_outcome(answer.present, answer),
        edited=None if answer.edited is None else _outcome(answer.edited, answer),
        assumptions=list(answer.notes),
    )


def _outcome(outcome: DemandOutcome, answer: WhatIf) -> WhatIfOutcome:
    ordered = sorted(answer.workloads, key=lambda workload: workload.key)
    return WhatIfOutcome(
        workloads=[_workload(workload, answer.placed[workload.key], outcome) for workload in ordered],
        displaced=[_displaced(item) for item in outcome.displaced],
        added_micro_usd_per_hour=outcome.added_micro_usd_per_hour,
        notes=list(outcome.notes),
    )


def _workload(workload: Workload, placed: int, outcome: DemandOutcome) -> WhatIfWorkload:
    return WhatIfWorkload(
        workload=workload_ref(workload.key),
        replicas=workload.replicas,
        placed=placed,
        places=[_place(item) for item in outcome.places if item.workload_key == workload.key],
        waiting=[waiting(item) for item in outcome.waiting if item.workload_key == workload.key],
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
