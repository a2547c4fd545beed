"""Messages of the demand queue as the command line decides on them; the generation follows from the stored workload.

The rule: content that is stored already is not sent again. Other content, and a workload that was withdrawn, gets the
generation after the stored one, or the manifest's own if that is higher. A withdraw carries the stored generation. So
the same command twice is one change, and of two people who change a workload at the same moment one gets an error.
"""

import json
from dataclasses import dataclass

from reservoir.core.serialisation.generation import (
    StoredGeneration,
    content_digest,
    has_become,
    next_generation,
)
from reservoir.manifests import outgoing
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.ports.state import WorkloadRecord


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message about a workload. ``body`` None: the wanted state is stored already, under ``generation``."""

    key: str
    generation: int
    body: str | None


def submit(manifest: WorkloadManifest, record: WorkloadRecord | None) -> Outgoing:
    """Return the submit of a manifest; ``record`` is the stored workload."""
    wanted = manifest.to_core()
    generation = next_generation(_stored(record), wanted)
    if record is not None and generation == record.generation:
        return Outgoing(wanted.key, generation, None)
    generation = max(generation, manifest.metadata.generation)
    return Outgoing(
        wanted.key, generation, json.dumps(outgoing.submit(manifest, generation))
    )


def withdraw(record: WorkloadRecord) -> Outgoing:
    """Return the withdraw of a workload that is stored."""
    body = (
        None
        if record.withdrawn
        else json.dumps(outgoing.withdraw(record.key, record.generation))
    )
    return Outgoing(record.key, record.generation, body)


def release(key: str, node_claim: str, replicas: int | None) -> str:
    """Return the body that reports that replicas (None: all) of a workload have left a node."""
    return json.dumps(outgoing.release(key, node_claim, replicas))


def is_stored(
    manifest: WorkloadManifest, generation: int, record: WorkloadRecord | None
) -> bool | None:
    """Whether a submit of this generation has become the wanted one; None while it has not been processed."""
    return has_become(_stored(record), manifest.to_core(), generation)


def _stored(record: WorkloadRecord | None) -> StoredGeneration | None:
    if record is None:
        return None
    digest = None if record.workload is None else content_digest(record.workload)
    return StoredGeneration(record.generation, digest, record.withdrawn)
