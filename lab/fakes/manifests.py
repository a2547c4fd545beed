"""Objects of Reservoir's own kinds, as users write them."""

from collections.abc import Mapping
from typing import Any


def workload_manifest(
    key: str,
    replicas: int,
    requests: Mapping[str, object],
    *,
    generation: int | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A workload by its key; without a generation, it is for the intake to give one."""
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"namespace": namespace, "name": name}
        | ({"generation": generation} if generation else {}),
        "spec": {"replicas": replicas, "resources": {"requests": dict(requests)}, **spec},
    }


def team_manifest(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Team",
        "metadata": {"name": name},
        "spec": spec,
    }
