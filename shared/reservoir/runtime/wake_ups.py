"""The content of the planner's wake-ups.

Operators may send them, and so may a newer release beside this one. One that is not understood certainly asks for a
pass, so it asks for a pass over all demand. It never fails a pass: that would hold up the queue's group while its
messages are hidden.
"""

import json
from itertools import chain
from typing import Any

from reservoir.runtime.observability import count, logger
from reservoir.usecases.provisioning.share_demand import Woken

_UNKNOWN: dict[str, Any] = {"workloads": []}


def woken_by(event: dict[str, Any]) -> Woken:
    """Read a batch of SQS. The minute's wake-up is an event of EventBridge: nothing was written."""
    bodies = [_understood(record.get("body")) for record in event.get("Records", [])]
    ours = [body for body in bodies if "workloads" in body]
    groups = [body["group"] for body in ours if "group" in body]
    return Woken(
        workload_keys=frozenset(chain.from_iterable(body["workloads"] for body in ours)),
        names_all=bool(ours)
        and all(body.get("workloads") or "group" in body for body in bodies),
        group_keys=frozenset(parts[0] for parts in groups),
        parts=frozenset(chain.from_iterable(groups)),
        indexes_lag=any(not body["workloads"] and "group" not in body for body in ours),
    )


def _understood(text: object) -> dict[str, Any]:
    """Return a wake-up as this release writes it; one of another form asks for everybody."""
    try:
        body = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and "workloads" not in body and "source" in body:
        return body  # of EventBridge
    if (
        isinstance(body, dict)
        and _are_words(body.get("workloads"))
        and _are_parts(body.get("group", ["any"]))
    ):
        return body
    logger.warning(
        "wake-up is not understood: it asks for everybody", extra={"body": str(text)[:200]}
    )
    count("WakeUpsUnknown")
    return _UNKNOWN


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _are_parts(value: object) -> bool:
    return bool(value) and _are_words(value)
