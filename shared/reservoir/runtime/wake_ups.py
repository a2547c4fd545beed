"""What wake-ups of the planner say."""

import json
from typing import Any

from reservoir.usecases.provisioning.share_demand import Woken


def woken_by(event: dict[str, Any]) -> Woken:
    """Read a batch of SQS. The minute's wake-up is an event of EventBridge and says that nothing was written."""
    bodies = [json.loads(record["body"]) for record in event.get("Records", [])]
    ours = [body for body in bodies if "workloads" in body]
    groups = [body["group"] for body in ours if "group" in body]
    return Woken(
        workload_keys=frozenset(key for body in ours for key in body["workloads"]),
        names_all=bool(ours) and all(body.get("workloads") or "group" in body for body in bodies),
        group_keys=frozenset(parts[0] for parts in groups),
        parts=frozenset(part for parts in groups for part in parts),
        indexes_lag=any(not body["workloads"] and "group" not in body for body in ours),
    )
