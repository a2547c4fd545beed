"""What is said to the demand queue, for programs that put it there themselves, such as a function without a client."""

from shared.manifests.kinds.workload import WorkloadManifest
from shared.manifests.outgoing import describe, release, submit, withdraw
from shared.manifests.parsing.hashing import static_hash
from shared.manifests.parsing.problems import ManifestError

__all__ = ["ManifestError", "WorkloadManifest", "describe", "release", "static_hash", "submit", "withdraw"]
