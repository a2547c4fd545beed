"""The node provider that Ray's autoscaler loads (``type: external``); the only part that needs Ray.

Ray's second autoscaler wraps the same interface (``NodeProviderAdapter``); nothing else can be plugged into it.
"""

import os
import threading
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ray._raylet import GcsClient
from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import (
    NODE_KIND_HEAD,
    NODE_KIND_WORKER,
    STATUS_UP_TO_DATE,
    TAG_RAY_LAUNCH_REQUEST,
    TAG_RAY_NODE_KIND,
    TAG_RAY_NODE_STATUS,
    TAG_RAY_USER_NODE_TYPE,
)
from ray.autoscaler.v2.sdk import get_cluster_resource_state
from ray.core.generated.autoscaler_pb2 import DrainNodeReason, NodeStatus

from integrations.ray.nodes import RayNode, RayNodes
from reservoir.client import Client

# What `ray start --head` was started with, by which Ray knows the machine of each of its nodes.
_INSTANCE_ID: Final = "RAY_CLOUD_INSTANCE_ID"
_NODE_TYPE: Final = "RAY_NODE_TYPE_NAME"
# Ray ends its part of a machine before the machine's agent kills what still runs (docs/nodes.md).
_MARGIN_S: Final = 20


class ReservoirNodeProvider(NodeProvider):  # type: ignore[misc] # Ray ships no type information
    """Nodes of one cluster. Its configuration is the section ``provider`` of the cluster's file."""

    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        missing = {_INSTANCE_ID, _NODE_TYPE} - os.environ.keys()
        if missing:
            raise ValueError(
                f"start the head with {' and '.join(sorted(missing))} in its environment"
            )
        self._head = os.environ[_INSTANCE_ID]
        self._head_address = str(provider_config["head_address"])
        self._nodes = RayNodes(
            Client.connect(
                provider_config["demand_queue_url"], provider_config["events_queue_url"]
            ),
            provider_config["namespace"],
            Path(provider_config["state_file"]),
            lambda: uuid.uuid4().hex[:12],
        )
        threading.Thread(
            target=self._nodes.follow, args=(self._drain,), daemon=True
        ).start()

    def non_terminated_nodes(self, tag_filters: Mapping[str, str]) -> list[str]:
        """Return the head, and all nodes that were asked for and not ended."""
        known = {
            self._head: self._head_tags(),
            **{name: _tags(node) for name, node in self._nodes.all().items()},
        }
        return [name for name, tags in known.items() if tag_filters.items() <= tags.items()]

    def is_running(self, node_id: str) -> bool:
        """Whether a node is wanted: its machine may still be launching."""
        return node_id == self._head or node_id in self._nodes.all()

    def is_terminated(self, node_id: str) -> bool:
        """Whether a node was ended."""
        return not self.is_running(node_id)

    def node_tags(self, node_id: str) -> dict[str, str]:
        """Return what Ray has to know of a node."""
        if node_id == self._head:
            return self._head_tags()
        node = self._nodes.all().get(node_id)
        return {} if node is None else _tags(node)  # ended since it was listed: nobody's

    def create_node(
        self, node_config: dict[str, Any], tags: dict[str, str], count: int
    ) -> None:
        """Have ``count`` nodes wanted; ``node_config`` is the ``spec`` of their workloads."""
        self._nodes.create(
            tags[TAG_RAY_USER_NODE_TYPE],
            tags.get(TAG_RAY_LAUNCH_REQUEST, ""),
            node_config,
            count,
        )

    def terminate_node(self, node_id: str) -> None:
        """Have a node's machine not wanted any more."""
        self._nodes.end(node_id)

    def _head_tags(self) -> dict[str, str]:
        return {
            TAG_RAY_NODE_KIND: NODE_KIND_HEAD,
            TAG_RAY_USER_NODE_TYPE: os.environ[_NODE_TYPE],
            TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE,
        }

    def _drain(self, name: str, deadline: datetime, why: str) -> None:
        """Let Ray start nothing more on a machine, end its part of it once it is idle, and run the rest elsewhere."""
        gcs = GcsClient(address=self._head_address)
        for node in get_cluster_resource_state(gcs).node_states:
            if node.instance_id == name and node.status != NodeStatus.DEAD:
                preempted = DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION
                until_ms = max(1, int((deadline.timestamp() - _MARGIN_S) * 1000))
                is_accepted, refusal = gcs.drain_node(
                    node.node_id.hex(), preempted, why, until_ms
                )
                if not is_accepted:
                    raise RuntimeError(f"Ray does not drain {name}: {refusal}")


def _tags(node: RayNode) -> dict[str, str]:
    return {
        TAG_RAY_NODE_KIND: NODE_KIND_WORKER,
        TAG_RAY_USER_NODE_TYPE: node.node_type,
        TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE,
        TAG_RAY_LAUNCH_REQUEST: node.request_id,
    }
