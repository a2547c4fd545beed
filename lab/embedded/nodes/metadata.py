"""The instance metadata service: what an instance is told about itself, IMDSv2 with its session tokens.

On AWS every instance reaches it at 169.254.169.254. Here there is one server on loopback, and the first part of the
path says whose it is: ``http://127.0.0.1:<port>/<instance id>/`` is what an instance has as its
``AWS_EC2_METADATA_SERVICE_ENDPOINT``. It serves the paths that are listed in ``docs/ec2-emulation.md``; any other is
404, as on AWS. ``HttpTokens``, ``HttpEndpoint`` and ``InstanceMetadataTags`` of the instance hold.
"""

import base64
import binascii
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from lab.embedded.ec2 import Ec2Emulation
from lab.embedded.ec2.account.state import Instance
from lab.embedded.loopback import Answer as HttpAnswer
from lab.embedded.loopback import LoopbackServer, Request
from lab.embedded.nodes.sessions import InstanceCredentials, new_credentials, role_of

TOKEN_TTL_MAX_S: Final = 21_600
VALID: Final = timedelta(hours=6)
_RENEWED: Final = timedelta(minutes=15)  # before they expire there are new credentials
_TOKEN_PATH: Final = "latest/api/token"  # noqa: S105 - a path
_CREDENTIALS: Final = "iam/security-credentials/"
Answer = tuple[int, str]
NOT_FOUND: Final[Answer] = (404, "Not Found")


@dataclass(frozen=True, slots=True)
class _Issued:
    """Credentials, and what the metadata say of their time."""

    credentials: InstanceCredentials
    at: datetime


class MetadataService:
    """Serves the metadata of all instances.

    Parameters
    ----------
    ec2
        Whose instances they are.
    now
        The emulated time.
    account_id, region
        Where they are.
    """

    def __init__(
        self, ec2: Ec2Emulation, now: Callable[[], datetime], account_id: str, region: str
    ) -> None:
        self._ec2 = ec2
        self._now = now
        self._account_id = account_id
        self._region = region
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[str, datetime]] = {}  # whose it is, and until when
        self._issued: dict[tuple[str, str], _Issued] = {}  # by instance and role
        self._server = LoopbackServer(0, self._served)

    @property
    def url(self) -> str:
        """Where it answers; an instance's id follows."""
        return f"{self._server.url}/"

    def serve(self) -> None:
        """Serve for ever."""
        self._server.serve_forever(0.1)

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        """Return status and text for one request; ``path`` begins with the instance's id."""
        instance_id, _, rest = path.lstrip("/").partition("/")
        instance = self._ec2.find_instance(instance_id)
        if instance is None or not instance.is_live:
            return NOT_FOUND
        options = instance.spec.metadata_options or {}
        if options.get("HttpEndpoint") == "disabled":
            return 403, "Forbidden"
        if rest == _TOKEN_PATH:
            if method == "PUT":
                return self._token(instance_id, headers)
            return (405, "Not Allowed")
        if method != "GET":
            return 405, "Not Allowed"
        if not self._is_let_in(
            instance_id, options, headers.get("x-aws-ec2-metadata-token")
        ):
            return 401, "Unauthorized"
        return self._read(instance, options, rest)

    def _served(self, request: Request) -> HttpAnswer:
        status, text = self.answer(request.method, request.target, request.headers)
        return HttpAnswer(status, "text/plain", text.encode())

    def _token(self, instance_id: str, headers: Mapping[str, str]) -> Answer:
        ttl_s = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if not ttl_s.isdecimal() or not 1 <= int(ttl_s) <= TOKEN_TTL_MAX_S:
            return 400, "Bad Request"
        if "x-forwarded-for" in headers:
            return 403, "Forbidden"
        token = secrets.token_urlsafe(42)
        with self._lock:
            self._tokens[token] = (instance_id, self._now() + timedelta(seconds=int(ttl_s)))
        return 200, token

    def _is_let_in(
        self, instance_id: str, options: Mapping[str, Any], token: str | None
    ) -> bool:
        if token is None:
            return options.get("HttpTokens") != "required"
        with self._lock:
            whose, until = self._tokens.get(token, ("", self._now()))
        return whose == instance_id and self._now() < until

    def _read(self, instance: Instance, options: Mapping[str, Any], path: str) -> Answer:
        if path == "latest/user-data":
            return _user_data(instance)
        if path == "latest/dynamic/instance-identity/document":
            return 200, json.dumps(self._document(instance), indent=1)
        prefix, _, name = path.partition("latest/meta-data/")
        if prefix or not name:
            return NOT_FOUND
        if name.startswith(_CREDENTIALS):
            return self._credentials(instance, name.removeprefix(_CREDENTIALS))
        if name.startswith("tags/instance"):
            return self._tags(
                instance, options, name.removeprefix("tags/instance").lstrip("/")
            )
        values = _values(instance, self._region)
        return (200, values[name]) if name in values else NOT_FOUND

    def _document(self, instance: Instance) -> dict[str, Any]:
        return {
            "accountId": self._account_id,
            "availabilityZone": instance.spec.zone.name,
            "imageId": instance.spec.image_id,
            "instanceId": instance.instance_id,
            "instanceType": instance.spec.instance_type,
            "pendingTime": _time(instance.launched_at),
            "privateIp": instance.private_ip,
            "region": self._region,
            "version": "2017-09-30",
        }

    def _credentials(self, instance: Instance, asked: str) -> Answer:
        profile = instance.spec.instance_profile
        role = role_of(profile) if profile else None
        if role is None:
            return NOT_FOUND
        if not asked:
            return 200, role
        if asked != role:
            return NOT_FOUND
        issued = self._current(instance.instance_id, role)
        return 200, json.dumps(
            {
                "Code": "Success",
                "LastUpdated": _time(issued.at),
                "Type": "AWS-HMAC",
                "AccessKeyId": issued.credentials.access_key_id,
                "SecretAccessKey": issued.credentials.secret_access_key,
                "Token": issued.credentials.session_token,
                "Expiration": _time(issued.at + VALID),
            },
            indent=1,
        )

    def _current(self, instance_id: str, role: str) -> _Issued:
        now = self._now()
        with self._lock:
            issued = self._issued.get((instance_id, role))
            if issued is None or issued.at + VALID - _RENEWED <= now:
                arn = (
                    f"arn:aws:ec2:{self._region}:{self._account_id}:instance/{instance_id}"
                )
                issued = self._issued[instance_id, role] = _Issued(
                    new_credentials(role, arn), now
                )
        return issued

    def _tags(self, instance: Instance, options: Mapping[str, Any], key: str) -> Answer:
        if options.get("InstanceMetadataTags") != "enabled":
            return NOT_FOUND
        tags = self._ec2.world.tags.of(instance.instance_id)
        if not key:
            return 200, "\n".join(sorted(tags))
        return (200, tags[key]) if key in tags else NOT_FOUND


def _values(instance: Instance, region: str) -> Mapping[str, str]:
    values = {
        "ami-id": instance.spec.image_id,
        "instance-id": instance.instance_id,
        "instance-type": instance.spec.instance_type,
        "local-ipv4": instance.private_ip or "",
        "placement/availability-zone": instance.spec.zone.name,
        "placement/availability-zone-id": instance.spec.zone.zone_id,
        "placement/region": region,
    }
    if instance.interrupted_at is not None:
        values["spot/instance-action"] = json.dumps(
            {"action": "terminate", "time": _time(instance.interrupted_at)}
        )
    return values


def _user_data(instance: Instance) -> Answer:
    if not instance.spec.user_data:
        return NOT_FOUND
    try:
        return 200, base64.b64decode(instance.spec.user_data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return 415, "user data is binary; only text is served here"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
