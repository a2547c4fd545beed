"""Messages for the demand queue, for programs that send them themselves, such as a function without a client."""

from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.outgoing import describe, release, submit, withdraw
from reservoir.manifests.parsing.hashing import static_hash
from reservoir.manifests.parsing.problems import ManifestError

__all__ = [
    "ManifestError",
    "WorkloadManifest",
    "describe",
    "release",
    "static_hash",
    "submit",
    "withdraw",
]
