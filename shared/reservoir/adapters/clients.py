"""How AWS clients are made: bounded retries with full jitter, bounded waits, one client a service and process.

Clients come from botocore alone: boto3 would add its resources and transfer managers, which nothing here uses, to every
cold start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import botocore.session
from botocore.config import Config

# Standard mode backs off exponentially with full jitter and retries throttles and 5xx; the total keeps a call that AWS
# throttles for long below the time-out of the function that makes it, which is then retried as a whole.
_ATTEMPTS_MAX: Final = 5
_CONNECT_TIMEOUT_S: Final = 3
_READ_TIMEOUT_S: Final = 20

# The price list is served from a few regions; the nearest by prefix.
_PRICING_REGIONS: Final = (
    ("eu-", "eu-central-1"),
    ("ap-", "ap-south-1"),
    ("cn-", "cn-northwest-1"),
)
_PRICING_REGION_ELSEWHERE: Final = "us-east-1"


class _LazyClient:
    """Makes its client at the first call."""

    def __init__(self, service: str, region: str | None, patience: "Patience") -> None:
        self._service = service
        self._region = region
        self._patience = patience

    @cached_property
    def _client(self) -> Any:
        return make_client(self._service, self._region, self._patience)

    def __getattr__(self, name: str) -> Any:
        """Return what the client has by this name."""
        return getattr(self._client, name)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a client asks, and how long it waits for each answer."""

    attempts_max: int = _ATTEMPTS_MAX
    read_timeout_s: int = _READ_TIMEOUT_S


# Of a service that others can do without: its silence may not use up the time of a function.
LITTLE_PATIENCE: Final = Patience(attempts_max=2, read_timeout_s=3)
# For a fleet of hundreds: EC2 answers when all of it is launched, and its answer to a second call with the token of a
# running first one is not documented. A launch asks again by itself, later; its function has a minute.
ONE_LONG_WAIT: Final = Patience(attempts_max=1, read_timeout_s=45)
# For purchases without a client token: a second call would buy again.
ONE_PURCHASE: Final = Patience(attempts_max=1, read_timeout_s=60)


def lazy_client(
    service: str, region: str | None = None, patience: Patience = Patience()
) -> Any:
    """Return a client that is made at its first call, so that a process pays only for the services that it asks."""
    return _LazyClient(service, region, patience)


def make_client(
    service: str, region: str | None = None, patience: Patience = Patience()
) -> Any:
    """Return a client of ``service``; the region defaults to the function's own."""
    return _session().create_client(service, region_name=region, config=_config(patience))


def client_with(
    credentials: Mapping[str, str], service: str, region: str | None = None
) -> Any:
    """Return a client with the credentials of a role that was taken, as STS answers them."""
    return _session().create_client(
        service,
        region_name=region,
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        config=_config(Patience()),
    )


def _config(patience: Patience) -> Config:
    return Config(
        retries={"mode": "standard", "total_max_attempts": patience.attempts_max},
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=patience.read_timeout_s,
        user_agent_extra="reservoir",
    )


@cache
def _session() -> botocore.session.Session:
    """Return the process's session: credentials and the data that all clients share are loaded once."""
    return botocore.session.get_session()


def hear_dates(hear: Callable[[str], None]) -> None:
    """Have the ``Date`` of each answer heard, of the clients that are made from now on."""

    def heard(**answer: Any) -> None:
        date = answer["http_response"].headers.get("date")
        if date is not None:
            hear(date)

    _session().register("after-call", heard)


def pricing_region(region: str) -> str:
    """Return the region whose price list endpoint serves ``region``."""
    return next(
        (home for prefix, home in _PRICING_REGIONS if region.startswith(prefix)),
        _PRICING_REGION_ELSEWHERE,
    )


def is_served(service: str, region: str) -> bool:
    """Whether AWS is known to offer the service in the region; a service newer than this library is unknown."""
    partition = _session().get_partition_for_region(region)
    return region in _session().get_available_regions(service, partition_name=partition)


def client_of(profile: str | None, service: str, region: str | None) -> Any:
    """Return a client with the credentials of a profile; None: those of this process."""
    if profile is None:
        return make_client(service, region)
    return _session_of(profile).create_client(
        service, region_name=region, config=_config(Patience())
    )


def region_of(profile: str | None) -> str | None:
    """Return the region that the settings of a profile, or of this process, name. Raises BotoCoreError."""
    session = _session() if profile is None else _session_of(profile)
    region: str | None = session.get_config_variable("region")
    return region


@cache
def _session_of(profile: str) -> botocore.session.Session:
    return botocore.session.Session(profile=profile)
