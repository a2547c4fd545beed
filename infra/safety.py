"""How many nodes may end within an hour, and with how much notice, as far as a deployment chooses it."""

import json

from reservoir import names
from reservoir.deployment.settings import DeploymentSettings


def safety_environment(settings: DeploymentSettings) -> dict[str, str]:
    """Return the variables that tell the functions."""
    return {
        names.ENDING_BOUNDS: json.dumps(settings.ending_bounds.chosen(), sort_keys=True),
        names.LONGEST_NOTICE_S: str(settings.longest_notice_s),
    }
