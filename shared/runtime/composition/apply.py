"""The apply function."""

import time

from shared.runtime.composition.outside import adapters, once
from shared.usecases.policy.apply_policy import ApplyPolicy
from shared.usecases.policy.deploy_policy import DeployPolicy


@once
def deploy_policy() -> DeployPolicy:
    """Return the application of a deployment's manifests folder."""
    outside = adapters()
    apply = ApplyPolicy(outside.policy, outside.publisher, outside.queue, outside.settings.launch_limits)
    return DeployPolicy(apply, pause=time.sleep)
