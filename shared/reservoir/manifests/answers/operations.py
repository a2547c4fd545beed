"""What an operator asks the ``operate`` function to do, and its answer."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from reservoir.core.safety.tally import LONGEST_LIFT
from reservoir.manifests.parsing.fields import (
    LONGEST_NAME,
    NAME_PATTERN,
    NAMESPACE_PATTERN,
    Duration,
    broken,
    duration_s,
    matching,
)
from reservoir.manifests.parsing.message import SchemaVersion, validated
from reservoir.manifests.parsing.model import Contradiction, Model

LONGEST_REASON: Final = 300
MOST_OBJECTS: Final = 100


class Verb(StrEnum):
    """What can be done by hand."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    DELETE = "delete"
    PAUSE = "pause"
    RESUME = "resume"
    RESET = "reset"
    LIFT = "lift"


POOL_VERBS: Final = frozenset({Verb.PAUSE, Verb.RESUME})
WORKLOAD_VERBS: Final = frozenset({Verb.RESET})
ENVELOPE_VERBS: Final = frozenset({Verb.LIFT})
MOST_LIFTED: Final = 100_000
LONGEST_LIFT_S: Final = int(LONGEST_LIFT.total_seconds())
# A workload is named with its namespace.
_NAMED: Final = rf"^({NAMESPACE_PATTERN.strip('^$')}/)?{NAME_PATTERN.strip('^$')}$"
OperatedName = Annotated[
    str,
    Field(
        min_length=1, max_length=LONGEST_NAME + 64, json_schema_extra={"pattern": _NAMED}
    ),
    AfterValidator(
        matching(
            "name",
            _NAMED,
            "must be the name of a node or NodePool, or NAMESPACE/NAME of a workload",
        )
    ),
]


def check_reason(text: str) -> str:
    """Refuse what could not be shown on one line of a terminal; raises PydanticCustomError."""
    if not text.strip():
        raise broken("reason", "say why")
    if not text.isprintable():
        raise broken("reason", "must be printable text on one line")
    return text.strip()


class OperationRequest(Model):
    """One verb for some nodes (by NodeClaim or instance id), NodePools, workloads (`NAMESPACE/NAME`), or endings."""

    schema_version: SchemaVersion = 1
    verb: Annotated[Verb, Field(strict=False)]
    names: list[OperatedName] = Field(min_length=1, max_length=MOST_OBJECTS)
    reason: Annotated[str, Field(max_length=LONGEST_REASON), AfterValidator(check_reason)]
    deadline: Duration | None = Field(
        default=None,
        description="For drain: end the nodes after that long; absent: the usual grace. For lift: what is not used by"
        " then is void.",
    )
    count: int | None = Field(
        default=None, ge=1, le=MOST_LIFTED, description="For lift: how many may end."
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse a lift without its bounds, and a number for anything else."""
        count, deadline = raw.get("count"), raw.get("deadline")
        if raw.get("verb") != Verb.LIFT:
            if count is not None:
                yield Contradiction("count", "verb", "is for lift alone")
            return
        if count is None:
            yield Contradiction("count", "required", "say how many may end")
        lasts_s = duration_s(deadline) if isinstance(deadline, str) else 0
        if not 0 < lasts_s <= LONGEST_LIFT_S:
            yield Contradiction(
                "deadline", "lift", f"say for how long, at most {LONGEST_LIFT_S // 3600}h"
            )

    def document(self) -> dict[str, Any]:
        """Return the request as it is sent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def digest(self, deployment: str) -> str:
        """Return what a proof of identity is bound to: this request, to this deployment."""
        text = json.dumps([deployment, self.document()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class OperationResult(Model):
    """The result for one object."""

    name: str
    outcome: Literal["done", "unchanged", "refused"]
    message: str


def parse_request(data: object) -> OperationRequest:
    """Read a request. Raises ManifestError."""
    return validated(OperationRequest, data)
