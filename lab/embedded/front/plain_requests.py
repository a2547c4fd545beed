"""Which requests are plain: one POST to ``/`` of this endpoint, signed in its header, its body as it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OWN_HOSTS: Final = frozenset({"127.0.0.1", "localhost"})
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/, ]+)/\d{8}/([^/, ]+)/([^/, ]+)/aws4_request, "
    r"SignedHeaders=[^, ]+, Signature=[0-9a-f]+"
)
# Headers that say that the body is not what it is, or that somebody stands in between.
_NOT_PLAIN: Final = frozenset(
    {
        "content-encoding",
        "transfer-encoding",
        "x-amz-content-sha256",
        "x-amz-decoded-content-length",
    }
    | {"x-forwarded-proto", "expect"}
)


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """The head of a plain request: headers by lower-case name, and what its signature names."""

    headers: dict[str, str]
    access_key_id: str
    region: str
    scope: str  # the service that it was signed for


def plain_request(scope: Mapping[str, Any]) -> PlainRequest | None:
    """Return the head of an ASGI request that is plain, or None."""
    if (
        scope["type"] != "http"
        or scope["method"] != "POST"
        or scope["raw_path"] != b"/"
        or scope["query_string"]
    ):
        return None
    try:
        headers = {
            name.decode("ascii"): value.decode("ascii") for name, value in scope["headers"]
        }
    except UnicodeDecodeError:
        return None
    signed = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    is_plain = (
        len(headers) == len(scope["headers"])
        and scope["scheme"] == "https"
        and headers.get("host", "").partition(":")[0] in OWN_HOSTS
        and "content-length" in headers
        and _NOT_PLAIN.isdisjoint(headers)
    )
    return PlainRequest(headers, *signed.groups()) if signed and is_plain else None
