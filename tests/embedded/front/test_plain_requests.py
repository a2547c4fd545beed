"""Which requests are plain, by their heads."""

from typing import Any

import pytest

from lab.embedded.front.plain_requests import PlainRequest, plain_request

SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIA1/20261122/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=content-type;host;x-amz-date, Signature=0123456789abcdef"
)
HEADERS = {
    "host": "127.0.0.1:40703",
    "authorization": SIGNED,
    "content-length": "2",
    "x-amz-date": "20261122T080000Z",
}


def request(*more: tuple[str, str], without: str = "", **scope: Any) -> dict[str, Any]:
    headers = [(name, value) for name, value in HEADERS.items() if name != without] + list(
        more
    )
    return {
        "type": "http",
        "method": "POST",
        "scheme": "https",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        **scope,
    }


def test_a_signed_post_to_this_endpoint_is_plain() -> None:
    assert plain_request(request()) == PlainRequest(
        HEADERS, "AKIA1", "us-east-1", "dynamodb"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"type": "lifespan"},
        {"method": "GET"},
        {"scheme": "http"},
        {"raw_path": b"/123456789012/queue"},
        {"query_string": b"Action=ListQueues"},
        {"without": "authorization"},
        {"without": "content-length"},
        {"without": "host"},
    ],
)
def test_other_requests_are_not(other: dict[str, Any]) -> None:
    assert plain_request(request(**other)) is None


@pytest.mark.parametrize(
    "header",
    [
        ("content-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("x-forwarded-proto", "http"),
        ("expect", "100-continue"),
        ("x-amz-date", "20261122T090000Z"),  # twice
        ("x-note", "caf\u00e9"),
    ],
)
def test_a_header_that_needs_a_closer_look_makes_it_another(
    header: tuple[str, str],
) -> None:
    assert plain_request(request(header)) is None


@pytest.mark.parametrize(
    "authorization",
    [
        SIGNED.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
        SIGNED.replace("/aws4_request", ""),
        SIGNED.replace("/20261122", ""),
        SIGNED.removesuffix(", Signature=0123456789abcdef"),
        "Bearer 0123456789abcdef",
    ],
)
def test_another_kind_of_signature_makes_it_another(authorization: str) -> None:
    assert (
        plain_request(request(("authorization", authorization), without="authorization"))
        is None
    )


def test_another_host_makes_it_another() -> None:
    assert (
        plain_request(request(("host", "bucket.s3.localhost:40703"), without="host"))
        is None
    )
