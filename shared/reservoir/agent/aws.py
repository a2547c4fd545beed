"""What the agent asks of AWS: a few calls, signed with the credentials of the instance.

botocore signs them and finds the credentials; its clients are left out, because the models that they load take more
memory than all the rest of the agent.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import InstanceMetadataProvider
from botocore.exceptions import BotoCoreError
from botocore.utils import InstanceMetadataFetcher

TIMEOUT_S: Final = 10
METADATA: Final = "http://169.254.169.254"
METADATA_TIMEOUT_S: Final = 2
# Kept here, because the agent imports nothing of the rest of the product.
IDENTITY_INDEX: Final = "node-identity"
_JSON: Final[Mapping[str, str]] = {
    "dynamodb": "application/x-amz-json-1.0",
    "sqs": "application/x-amz-json-1.0",
    "logs": "application/x-amz-json-1.1",
}
# a refusal's type, after its namespace if it has one
_TYPE: Final = re.compile(rb'"__type":\s*"(?:[^"#]*#)?(\w+)"')


class UnreachableError(Exception):
    """AWS could not be asked, or refused; trying again later is all that one can do.

    ``code`` is AWS's word for a refusal; empty where AWS could not be asked.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class _Metadata:
    """Reads single values of the instance's metadata (IMDSv2)."""

    def __init__(self, endpoint: str) -> None:
        self._base = f"{endpoint.rstrip('/')}/latest/"
        # never through a proxy
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def read(self, path: str) -> str | None:
        """Return a value, None when there is none; raises UnreachableError."""
        try:
            token = self._ask(
                "api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            )
            return self._ask(path, "GET", {"X-aws-ec2-metadata-token": token})
        except urllib.error.HTTPError as error:
            with error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                raise UnreachableError(f"metadata {path}: {error.code}") from error
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"metadata {path}: {error}") from error

    def _ask(self, path: str, method: str, headers: Mapping[str, str]) -> str:
        request = urllib.request.Request(  # noqa: S310 - http
            self._base + path, headers=dict(headers), method=method
        )
        with self._open(request, timeout=METADATA_TIMEOUT_S) as answer:
            text: str = answer.read().decode()
            return text


class Instance:
    """The instance that this program runs on.

    Parameters
    ----------
    endpoint
        Where AWS answers instead of its usual addresses, for tests.
    metadata
        The same for the instance's metadata.
    """

    def __init__(self, endpoint: str | None, metadata: str | None) -> None:
        config = {"ec2_metadata_service_endpoint": metadata or METADATA}
        self._endpoint = endpoint
        self._metadata = _Metadata(metadata or METADATA)
        fetcher = InstanceMetadataFetcher(config=config)
        self._provider = InstanceMetadataProvider(iam_role_fetcher=fetcher)
        self._credentials: Any = None
        self._document: Mapping[str, str] = {}

    def identity(self, table: str) -> Mapping[str, Any] | None:
        """Return what the node is for, None when that is not known yet; raises UnreachableError."""
        document = self._who()
        arn = f"arn:{_partition(document['region'])}:ec2:{document['region']}:{document['accountId']}"
        answer = self._call(
            "dynamodb",
            "DynamoDB_20120810.Query",
            {
                "TableName": table,
                "IndexName": IDENTITY_INDEX,
                "KeyConditionExpression": "instance_arn = :arn",
                "ExpressionAttributeValues": {
                    ":arn": {"S": f"{arn}:instance/{document['instanceId']}"}
                },
            },
        )
        if not answer.get("Items"):
            return None
        found: dict[str, Any] = json.loads(answer["Items"][0]["identity"]["S"])
        for part, moment in (
            ("drain", "deadline"),
            ("blockDrain", "startsAt"),
            ("blockDrain", "deadline"),
        ):
            if part in found:
                found[part][f"{moment}S"] = datetime.fromisoformat(
                    found[part][moment]
                ).timestamp()
        for hosted in found.get("workloads", ()):
            if "heldUntil" in hosted:
                until = datetime.fromisoformat(hosted["heldUntil"])
                hosted["heldUntilS"] = until.timestamp()
        return found

    def report(self, queue_url: str, body: Mapping[str, Any]) -> None:
        """Send a report; raises UnreachableError."""
        self._call(
            "sqs",
            "AmazonSQS.SendMessage",
            {"QueueUrl": queue_url, "MessageBody": json.dumps(body)},
        )

    def write_log(self, group: str, stream: str, at_ms: int, lines: Sequence[str]) -> None:
        """Append lines to a log stream, which is made if it is missing; raises UnreachableError."""
        place = {"logGroupName": group, "logStreamName": stream}
        written = [{"timestamp": at_ms, "message": line} for line in lines]
        parameters = {**place, "logEvents": written}
        try:
            self._call("logs", "Logs_20140328.PutLogEvents", parameters)
        except UnreachableError as error:
            if error.code != "ResourceNotFoundException":
                raise
            self._call("logs", "Logs_20140328.CreateLogStream", place)
            self._call("logs", "Logs_20140328.PutLogEvents", parameters)

    def address(self) -> str:
        """Return the instance's private address; raises UnreachableError. No call leaves the machine."""
        found = self._metadata.read("meta-data/local-ipv4") or self._metadata.read(
            "meta-data/ipv6"
        )
        if found is None:
            raise UnreachableError("the instance's metadata have no address")
        return found

    def interrupted_at_s(self) -> float | None:
        """Return when EC2 ends the instance, if EC2 has announced it to the instance; no call leaves the machine."""
        text = self._metadata.read("meta-data/spot/instance-action")
        if text is None:
            return None
        return datetime.fromisoformat(json.loads(text)["time"]).timestamp()

    def _who(self) -> Mapping[str, str]:
        if not self._document:
            text = self._metadata.read("dynamic/instance-identity/document")
            if text is None:
                raise UnreachableError("the instance's metadata have no identity document")
            self._document = json.loads(text)
        return self._document

    def _call(
        self, service: str, target: str, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        region = self._who()["region"]
        if self._credentials is None:
            self._credentials = self._provider.load()
        if self._credentials is None:
            raise UnreachableError("the instance has no role")
        url = self._endpoint or f"https://{service}.{region}.{_domain(region)}/"
        body = json.dumps(parameters).encode()
        request = AWSRequest(
            "POST",
            url,
            {"Content-Type": _JSON[service], "X-Amz-Target": target},
            body,
        )
        try:
            SigV4Auth(self._credentials, service, region).add_auth(request)
            headers = {name: _text(value) for name, value in request.headers.items()}
            signed = urllib.request.Request(url, body, headers)  # noqa: S310 - https, or what a test says
            return _answer(signed)
        # An answer may break off at any place, which is no OSError: also in the text of an error.
        except (OSError, ValueError, HTTPException, BotoCoreError) as error:
            raise UnreachableError(f"{target}: {error}") from error


def _answer(request: urllib.request.Request) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - https, or what a test says
            content = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(500)
            raise UnreachableError(
                f"{request.get_header('X-amz-target')}: {error.code} {said!r}",
                _code(said),
            ) from error
    # CreateLogStream answers with nothing
    found = json.loads(content) if content else {}
    if not isinstance(found, dict):
        raise ValueError("the answer is no object")
    return found


def _code(said: bytes) -> str:
    """Return AWS's word for a refusal; empty where it does not say one."""
    found = _TYPE.search(said)
    return found[1].decode() if found else ""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _partition(region: str) -> str:
    return (
        "aws-cn"
        if region.startswith("cn-")
        else "aws-us-gov"
        if region.startswith("us-gov-")
        else "aws"
    )


def _domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
