"""The global options: which stack, and how AWS is reached. Read without importing what a connection needs."""

import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# botocore reads the second, Lambda and the AWS CLI the first
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT: Final = "AWS_ENDPOINT_URL"
CONTEXT_VARIABLE: Final = "RESERVOIR_CONTEXT"


@dataclass(frozen=True, slots=True)
class Options:
    """The chosen options; None: not on the command line."""

    stack: str | None = None
    deployment: str | None = None
    region: str | None = None
    context: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None


def choose_aws(
    environment: MutableMapping[str, str],
    *,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
) -> None:
    """Make AWS's libraries use the options as the AWS CLI does: each wins against all variables."""
    if profile is not None:
        environment["AWS_PROFILE"] = profile
        for name in _CREDENTIALS:
            environment.pop(name, None)
    if endpoint_url is not None:
        for name in [name for name in environment if name.startswith(f"{_ENDPOINT}_")]:
            del environment[name]
        environment[_ENDPOINT] = endpoint_url
    chosen = region or environment.get("AWS_REGION")
    if chosen is not None:
        choose_region(chosen, environment)


def choose_region(region: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Use a region from now on."""
    environment.update(dict.fromkeys(_REGIONS, region))
