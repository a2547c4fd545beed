"""Orphans: instances with our tags and without a claim. A tag alone ends nothing.

Everyone who may tag instances can set our tags, and "launch more like this" copies them. So a proof is needed: a claim
that ended names the instance, or the launch of its batch is known and over, and either its outcome names the instance,
or EC2 shows (in a tag that only EC2 writes) that it was made from a launch template of ours.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.launching.launch_outcome import LaunchAttempt
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import NodeClaim

# After this time an instance without a claim is an orphan: indexes lag moments, and an open attempt adopts from 6
# minutes on, at its next retry.
ORPHAN_AFTER: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Traces:
    """What the tables and EC2 know of an instance beside its tags."""

    claim: NodeClaim | None
    attempt: LaunchAttempt | None  # the latest of its batch
    our_template_ids: Collection[str]
    tables_marked_at: datetime


def is_suspect(instance: Instance, now: datetime) -> bool:
    """Whether an instance is old enough to be an orphan, and carries the tags that all our launches set."""
    return (
        not instance.is_gone
        and instance.batch_id is not None
        and now - instance.launched_at >= ORPHAN_AFTER
    )


def is_wanted(traces: Traces) -> bool:
    """Whether a claim has the instance, or may come to have it by an attempt that is not over."""
    if traces.claim is not None:
        return traces.claim.is_live
    return traces.attempt is not None and not traces.attempt.completed


def is_proven(instance: Instance, traces: Traces) -> bool:
    """Whether an unwanted instance is one that we launched, and that these tables would know."""
    if traces.claim is not None:
        return True
    if (
        traces.attempt is None
        or traces.attempt.outcome is None
        or instance.launched_at < traces.tables_marked_at
    ):
        return False
    named = {launched.id for launched in traces.attempt.outcome.instances}
    return instance.id in named or instance.launch_template_id in traces.our_template_ids
