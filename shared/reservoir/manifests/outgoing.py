"""Messages of the demand queue as they are written: by the command line, and by the client."""

from typing import Any, Final

from reservoir.manifests.kinds.workload import WorkloadManifest

# The latest that ``reservoir.manifests.messages`` reads; kept apart, because writers need none of its parsing.
_SCHEMA_VERSION: Final = 1


def submit(manifest: WorkloadManifest, generation: int) -> dict[str, Any]:
    """Return the submit of a manifest, as the user gave it, under a generation."""
    workload = _as_given(manifest)
    workload["metadata"]["generation"] = generation
    return _message("submit", workload)


def withdraw(key: str, generation: int) -> dict[str, Any]:
    """Return the withdraw of a workload (``namespace/name``) as it is stored under a generation."""
    return _message("withdraw", _reference(key, generation=generation))


def release(key: str, node_claim: str, replicas: int | None) -> dict[str, Any]:
    """Return the message that replicas (None: all) of a workload have left a node."""
    count = {} if replicas is None else {"replicas": replicas}
    return _message("release", _reference(key), nodeClaim=node_claim, **count)


def describe(
    key: str, request_id: str, manifest: WorkloadManifest | None = None
) -> dict[str, Any]:
    """Return the question about a workload, and whether it is stored as in ``manifest``."""
    workload = _reference(key) if manifest is None else _as_given(manifest)
    return _message("describe", workload, requestId=request_id)


def _as_given(manifest: WorkloadManifest) -> dict[str, Any]:
    return manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _reference(key: str, **metadata: Any) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    return {"metadata": {"namespace": namespace, "name": name, **metadata}}


def _message(action: str, workload: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schemaVersion": _SCHEMA_VERSION,
        "action": action,
        "workload": workload,
        **more,
    }
