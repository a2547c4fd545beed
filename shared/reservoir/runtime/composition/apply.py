"""The apply function."""

import time

from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.composition.parts.policy import apply_policy_from
from reservoir.usecases.policy.deploy_policy import DeployPolicy


@once
def deploy_policy() -> DeployPolicy:
    """Return the application of a deployment's manifests folder, in the name of its stack."""
    outside = process_outside()
    apply = apply_policy_from(outside, f"stack/{outside.settings.deployment}")
    return DeployPolicy(apply, pause=time.sleep)
