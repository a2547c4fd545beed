"""The node of the demo that really runs something: its policy, its agent, and the work that counts.

Its instances run their user data as processes of this machine. All of them share a folder, as nodes share a file system
in the network; there the work keeps how far it has come, and there it is seen.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import NODE_ROLE
from lab.embedded.reservoir.user_data import AGENT, agent_user_data

TUNING: Final = "research/tuning"
INSTANCE_TYPE: Final = "p5.48xlarge"
# Whoever goes on from somebody's work waits for its checkpoint: a node may be replaced before it is gone.
_WORK: Final = """\
n=0
if [ -e progress ]; then
  while [ ! -s checkpoint ]; do sleep 0.2; done
  n=$(cat checkpoint)
fi
echo $n >> begun
while :; do n=$((n+1)); echo $n > progress.new; mv progress.new progress; sleep 0.5; done
"""
_RUN: Final = """
[[run]]
workload = "{workload}"
command = ["sh", "-c", "cd {shared} && exec sh work.sh"]
checkpoint = ["cp", "{shared}/progress", "{shared}/checkpoint"]
"""


@dataclass(frozen=True, slots=True)
class Nodes:
    """What they share is in ``folder``."""

    folder: Path

    def prepare(self) -> Path:
        """Write what the nodes run; return the file of their policy."""
        (self.folder / "work.sh").write_text(_WORK, encoding="utf-8")
        run = _RUN.format(workload=TUNING, shared=self.folder)
        user_data = agent_user_data(
            run, log_folder="logs", poll_s=5, start=f"exec nice -n 5 {AGENT}"
        )
        policy = self.folder / "policy.yaml"
        # JSON is YAML
        policy.write_text(
            "\n---\n".join(map(json.dumps, _policy(user_data))), encoding="utf-8"
        )
        return policy

    def begun(self) -> list[int]:
        """Return how far the work had come each time that it began."""
        file = self.folder / "begun"
        if file.exists():
            return [int(line) for line in file.read_text(encoding="utf-8").split()]
        return []

    def progress(self) -> int:
        """Return how far the work has come."""
        file = self.folder / "progress"
        return int(file.read_text(encoding="utf-8")) if file.exists() else 0

    def summary(self) -> str:
        """Say in a line what became of the work."""
        began, *again = self.begun()
        went_on = "".join(f", went on from {count} on another node" for count in again)
        return f"began at {began}, saved {self.checkpoint()}{went_on}, now at {self.progress()}"

    def checkpoint(self) -> int | None:
        """Return what the checkpoint hook has saved; None before it has."""
        file = self.folder / "checkpoint"
        saved = file.read_text(encoding="utf-8") if file.exists() else ""
        return int(saved) if saved.endswith("\n") else None


def let_in(aws: EmbeddedAws, node_policy_arn: str) -> None:
    """Let nodes read what they are for, and report, as an administrator would."""
    aws.client("iam").attach_role_policy(RoleName=NODE_ROLE, PolicyArn=node_policy_arn)


def tuning_workload() -> Mapping[str, Any]:
    """Return the workload that runs there."""
    namespace, _, name = TUNING.partition("/")
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"namespace": namespace, "name": name, "generation": 1},
        "spec": {
            "replicas": 1,
            "checkpointPeriod": "5m",
            "resources": {"requests": {"cpu": "90", "nvidia.com/gpu": 8}},
            "nodeSelector": {"karpenter.sh/nodepool": name},
            "tolerations": [{"key": name, "operator": "Exists"}],
        },
    }


def _policy(user_data: str) -> list[dict[str, Any]]:
    _, _, name = TUNING.partition("/")
    network = [{"tags": {"network": "private"}}]
    node_class = {
        "role": NODE_ROLE,
        "capacityReservationSelectorTerms": [{"tags": {"purpose": "gpu"}}],
        "subnetSelectorTerms": network,
        "securityGroupSelectorTerms": network,
        "amiSelectorTerms": [{"ssmParameter": "/images/node/x86_64"}],
        "userData": user_data,
    }
    template = {
        "nodeClassRef": {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": name,
        },
        "requirements": [
            {
                "key": "karpenter.sh/capacity-type",
                "operator": "In",
                "values": ["reserved", "on-demand"],
            },
            {
                "key": "node.kubernetes.io/instance-type",
                "operator": "In",
                "values": [INSTANCE_TYPE],
            },
        ],
        "taints": [{"key": name, "value": "true", "effect": "NoSchedule"}],
    }
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30m"}
    return [
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name},
            "spec": node_class,
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": {"spec": template}, "disruption": disruption},
        },
    ]
