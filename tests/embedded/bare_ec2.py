"""A stand-in for the EC2 emulation where a test is not about EC2: it refuses every operation."""

from collections.abc import Callable
from typing import Any


class BareEc2:
    """Refuses every EC2 operation; its control emits the event it is given."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self._emit = emit

    def dispatch(self, *_: Any) -> tuple[int, dict[str, str], bytes]:
        answer = (
            b"<Response><Errors><Error><Code>InvalidAction</Code><Message>none</Message></Error></Errors></Response>"
        )
        return 400, {"Content-Type": "text/xml"}, answer

    def pricing(self, *_: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, b'{"FormatVersion":"aws_v1","PriceList":[]}'

    def tick(self) -> None:
        """Nothing becomes due."""

    def control(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        if action == "emit":
            self._emit(payload)
        return {}


def install(*, emit: Callable[[dict[str, Any]], None], **_: Any) -> BareEc2:
    """Same signature as ``embedded.ec2.install``."""
    return BareEc2(emit)
