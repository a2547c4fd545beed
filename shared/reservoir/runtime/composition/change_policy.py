"""The change_policy function."""

import json

from reservoir.manifests.answers.policy_request import PolicyRequest
from reservoir.ports.policy import PolicyKind
from reservoir.ports.system import Sender
from reservoir.runtime.composition.parts.outside import process_outside
from reservoir.runtime.composition.parts.policy import apply_policy_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.policy.apply_policy import Outcome


def change_policy(request: PolicyRequest, sender: Sender) -> Outcome:
    """Write what a request asks for, in its sender's name. Raises ManifestError, ConflictError and AwsError."""
    return change_policy_from(process_outside(), request, sender)


def change_policy_from(outside: Outside, request: PolicyRequest, sender: Sender) -> Outcome:
    """Write it there."""
    files = [
        (f"manifest {number}", json.dumps(manifest))
        for number, manifest in enumerate(request.manifests, start=1)
    ]
    removed_at = {
        (PolicyKind(each.kind), each.name): each.revision for each in request.removed
    }
    apply = apply_policy_from(outside, sender.arn)
    return apply.replace(files, list(removed_at), removed_at=removed_at)
