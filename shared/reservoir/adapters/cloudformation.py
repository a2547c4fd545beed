"""The answer to a custom resource request."""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.error import URLError

from reservoir.ports.errors import UnknownOutcomeError

_ATTEMPTS_MAX: Final = 3
_TIMEOUT_S: Final = 10
_LONGEST_REASON: Final = 2_000  # CloudFormation takes 4 KiB in all


def respond(
    request: Mapping[str, Any],
    *,
    succeeded: bool,
    physical_id: str,
    reason: str,
    data: Mapping[str, str],
) -> None:
    """Answer CloudFormation how a request ended; without an answer a deployment waits for an hour.

    Raises
    ------
    UnknownOutcomeError
        The answer could not be delivered.
    """
    body = {
        "Status": "SUCCESS" if succeeded else "FAILED",
        "Reason": reason[:_LONGEST_REASON],
        "PhysicalResourceId": physical_id,
        "StackId": request["StackId"],
        "RequestId": request["RequestId"],
        "LogicalResourceId": request["LogicalResourceId"],
        "Data": dict(data),
    }
    # The URL is presigned for an empty content type.
    answer = urllib.request.Request(  # noqa: S310 # CloudFormation's own URL, and only the account can invoke us
        request["ResponseURL"],
        data=json.dumps(body).encode(),
        method="PUT",
        headers={"Content-Type": ""},
    )
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            with urllib.request.urlopen(answer, timeout=_TIMEOUT_S):  # noqa: S310 # as above
                return
        except (URLError, TimeoutError) as error:
            if attempt == _ATTEMPTS_MAX:
                raise UnknownOutcomeError(
                    type(error).__name__, "CustomResourceResponse"
                ) from error
