"""Who sent a request: AWS answers that, not the sender.

The sender signs ``sts:GetCallerIdentity`` with a header that names the request, and hands over the signed headers
instead of calling. The receiver makes the call: STS checks the signature, which covers that header, and answers with
the sender's ARN and id. Signatures are good for minutes, and for nothing but this question.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.names import SIGNED_REQUEST_HEADER
from reservoir.ports.errors import AccessDeniedError, AwsError, TransientError
from reservoir.ports.system import Sender

if TYPE_CHECKING:
    from mypy_boto3_sts import STSClient

_SIGNED: Final = re.compile(r"\bSignedHeaders=([a-z0-9;-]+)")
_OPERATION: Final = "GetCallerIdentity"
# of the function's own signature
_OUR_OWN: Final = ("authorization", "x-amz-date", "x-amz-security-token")
_LONGEST: Final = 8_192  # characters of a header; a session's token has some 2,000


class StsIdentities:
    """Implements ``reservoir.ports.system.Identities``."""

    def __init__(self, client: "STSClient") -> None:
        self._client = client
        self._proof: Mapping[str, str] = {}
        client.meta.events.register(f"before-send.sts.{_OPERATION}", self._replace)

    def sender_of(self, digest: str, proof: Mapping[str, str]) -> Sender:
        """Return the sender who signed a request with this digest.

        ``proof`` are the headers of the signed call, names in lower case. Raises AccessDeniedError when they are not
        those of this request, or AWS does not confirm them.
        """
        signed = _SIGNED.search(proof.get("authorization", ""))
        names = set() if signed is None else set(signed[1].split(";")) - {"host"}
        if SIGNED_REQUEST_HEADER not in names or proof.get(SIGNED_REQUEST_HEADER) != digest:
            raise AccessDeniedError("NotSignedForThisRequest", _OPERATION)
        kept = {name: proof[name] for name in sorted({*names, *_OUR_OWN}) if name in proof}
        if any(len(value) > _LONGEST or not value.isprintable() for value in kept.values()):
            raise AccessDeniedError("NotHeaders", _OPERATION)
        self._proof = kept
        try:
            with map_client_errors():
                answer = self._client.get_caller_identity()
            return Sender(answer["Arn"], answer["UserId"])
        except TransientError:
            raise
        except AwsError as error:
            # whatever STS has against it: an unknown key, a signature that is wrong or old
            raise AccessDeniedError(error.code, _OPERATION) from error

    def _replace(self, request: Any, **_: object) -> None:
        """Put the sender's signature in the place of our own."""
        for name in _OUR_OWN:
            if name in request.headers:
                del request.headers[name]
        for name, value in self._proof.items():
            request.headers[name] = value
