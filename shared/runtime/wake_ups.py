"""What wake-ups of the planner say."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WakeUps:
    """A batch of them: the workloads that are named, and whether something was written that none names."""

    workload_keys: frozenset[str]
    names_no_one: bool

    @classmethod
    def of(cls, event: dict[str, Any]) -> "WakeUps":
        """Read a batch of SQS. The minute's wake-up is an event of EventBridge and says that nothing was written."""
        bodies = [json.loads(record["body"]) for record in event.get("Records", [])]
        ours = [body["workloads"] for body in bodies if "workloads" in body]
        return cls(frozenset(key for keys in ours for key in keys), any(not keys for keys in ours))
