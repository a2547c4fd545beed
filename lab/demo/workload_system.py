"""The demo's workload system: sends demand, listens to the bus, and answers notices as a real one would."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.demo.observer import Observed, workload_name


@dataclass
class WorkloadSystem:
    """Speaks to the demand queue.

    Attributes
    ----------
    silent
        Claims whose notices it will not answer: processes that hang, a host that is gone.
    answered
        Claims whose notices it has answered.
    answered_by_nodes
        Workloads that are released by agents on their nodes.
    """

    sqs: Any
    demand_queue_url: str
    silent: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    answered_by_nodes: set[str] = field(default_factory=set)

    def send(self, action: str, workload: Mapping[str, Any]) -> None:
        """Submit or withdraw a workload."""
        self._tell({"action": action, "workload": workload})

    def answer(self, seen: Observed) -> None:
        """Answer every notice that has not been answered: the replicas have left, the node may go."""
        for claim_id, detail in seen.drains.items():
            if (
                claim_id in self.silent
                or claim_id in self.answered
                or claim_id in seen.terminated
            ):
                continue
            self.answered.add(claim_id)
            for workload in detail["workloads"]:
                if workload_name(workload) in self.answered_by_nodes:
                    continue
                who = {
                    "metadata": {
                        "namespace": workload["namespace"],
                        "name": workload["name"],
                    }
                }
                self._tell({"action": "release", "workload": who, "nodeClaim": claim_id})

    def _tell(self, body: Mapping[str, Any]) -> None:
        self.sqs.send_message(QueueUrl=self.demand_queue_url, MessageBody=json.dumps(body))
