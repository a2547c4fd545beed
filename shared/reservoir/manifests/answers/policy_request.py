"""What the command line asks the ``change_policy`` function to write."""

import hashlib
import json
from typing import Any, Final, Literal

from pydantic import Field

from reservoir.manifests.parsing.message import SchemaVersion, validated
from reservoir.manifests.parsing.model import Model

MOST_OBJECTS: Final = 1_000  # of a folder, most of which may be as it is stored


class RemovedObject(Model):
    """An object to delete, and the revision at which its sender has seen it."""

    kind: Literal["EC2NodeClass", "NodePool", "Team"]
    name: str
    revision: int


class PolicyRequest(Model):
    """Manifests to write, each with the ``resourceVersion`` that its sender has seen, and objects to delete."""

    schema_version: SchemaVersion = 1
    manifests: list[dict[str, Any]] = Field(default_factory=list, max_length=MOST_OBJECTS)
    removed: list[RemovedObject] = Field(default_factory=list, max_length=MOST_OBJECTS)

    def document(self) -> dict[str, Any]:
        """Return the request as it is sent."""
        return self.model_dump(mode="json", by_alias=True)

    def digest(self, deployment: str) -> str:
        """Return what a proof of identity is bound to: this change of policy, of this deployment."""
        text = json.dumps([deployment, "policy", self.document()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def parse_policy_request(data: object) -> PolicyRequest:
    """Read a request. Raises ManifestError."""
    return validated(PolicyRequest, data)
