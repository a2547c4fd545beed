"""Custom resource of a deployment -> Policy: applies the manifests folder."""

from typing import Any

from reservoir.runtime.composition.apply import deploy_policy
from reservoir.runtime.custom_resource import answered
from reservoir.runtime.observability import observed
from reservoir.usecases.policy.deploy_policy import CustomResourceAnswer


@observed
@answered
def handler(event: dict[str, Any], _context: Any) -> CustomResourceAnswer:
    """Serve a request of CloudFormation; it is told how that ended, whatever happens."""
    return deploy_policy().handle(event)
