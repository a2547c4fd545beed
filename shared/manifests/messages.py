"""Messages of the demand queue.

A body is JSON: ``{"schemaVersion": 1, "action": ..., ...}``, with an action of ``MESSAGES``. A body without
``schemaVersion`` is version 1. Every version that was ever published stays readable.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, TypeAlias

from pydantic import AfterValidator, Field, ValidationError

from shared.core.scheduling_terms.labels import closest
from shared.manifests.kinds.workload import MOST_REPLICAS, WorkloadManifest
from shared.manifests.parsing.errors import problems_of
from shared.manifests.parsing.fields import ObjectName, matching
from shared.manifests.parsing.metadata import ServerSide, WorkloadMetadata
from shared.manifests.parsing.model import Model
from shared.manifests.parsing.problems import ManifestError, Problem, path_of, shown
from shared.manifests.parsing.structure import check_size, check_structure

SCHEMA_VERSION: Final = 1

SchemaVersion = Annotated[Literal[1], Field(description="Version of the message format.")]


class SubmitMessage(Model):
    """A workload is wanted, or wanted differently; the higher ``metadata.generation`` wins in any order of arrival."""

    schema_version: SchemaVersion = 1
    action: Literal["submit", "update"]
    workload: WorkloadManifest


class WorkloadReference(Model):
    """Names a workload; the whole manifest may be given, of which only the metadata is read."""

    api_version: Literal["reservoir/v1"] = "reservoir/v1"
    kind: Literal["Workload"] = "Workload"
    metadata: WorkloadMetadata
    spec: Annotated[Any, Field(default=None, exclude=True, description="Not read.")]
    status: ServerSide

    @property
    def key(self) -> str:
        """The identity: ``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class WithdrawMessage(Model):
    """A workload is no longer wanted: its replicas are drained, and submits of its generation or older are ignored."""

    schema_version: SchemaVersion = 1
    action: Literal["withdraw"]
    workload: WorkloadReference


class ReleaseMessage(Model):
    """The answer to ``Node Draining``: replicas of the workload have left the node, ahead of the deadline."""

    schema_version: SchemaVersion = 1
    action: Literal["release"]
    workload: WorkloadReference
    node_claim: ObjectName = Field(description="The nodeClaim of the Node Draining event.")
    replicas: int | None = Field(
        default=None, ge=1, le=MOST_REPLICAS, description="How many have left; absent: all of them."
    )


class DescribeMessage(Model):
    """A question: what is known of the workload? ``Workload Described`` answers on the bus; nothing changes."""

    schema_version: SchemaVersion = 1
    action: Literal["describe"]
    workload: WorkloadReference
    request_id: Annotated[
        str,
        Field(
            max_length=64, description="Repeated in the answer, which so tells that it is younger than the question."
        ),
        AfterValidator(matching("request-id", r"^[A-Za-z0-9._-]+$", "must be letters, digits, '.', '_' and '-'")),
    ]


DemandMessage: TypeAlias = SubmitMessage | WithdrawMessage | ReleaseMessage
AnyMessage: TypeAlias = DemandMessage | DescribeMessage

MESSAGES: Final[dict[str, type[AnyMessage]]] = {
    "submit": SubmitMessage,
    "update": SubmitMessage,
    "withdraw": WithdrawMessage,
    "release": ReleaseMessage,
    "describe": DescribeMessage,
}


def parse_demand(body: str | bytes) -> AnyMessage:
    """Read the body of a demand message.

    Raises
    ------
    ManifestError
        The body is not a message; with everything that is wrong, as far as it can be told.
    """
    data = load_object(body)
    check_version(data)
    action = data.get("action")
    model = MESSAGES.get(action) if isinstance(action, str) else None
    if model is None:
        known = ", ".join(MESSAGES)
        hint = closest(action, MESSAGES) if isinstance(action, str) else None
        refuse("action", "action", f"{shown(action)} is not one of {known}", hint)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ManifestError(problems_of(error, model, line_of=lambda _: None)) from None


def load_object(body: str | bytes) -> dict[str, Any]:
    """Read untrusted JSON as :func:`load_json` does; it must be an object, or ManifestError is raised."""
    data = load_json(body)
    if not isinstance(data, dict):
        refuse("", "message", "must be a JSON object")
    return data


def check_version(data: Mapping[str, Any]) -> None:
    """Raise ManifestError unless a message says that it is of a version that is known, or nothing about that."""
    version = data.get("schemaVersion", SCHEMA_VERSION)
    if version != SCHEMA_VERSION or isinstance(version, bool):
        message = f"{shown(version)} is not a known version; {SCHEMA_VERSION} is the latest"
        refuse("schemaVersion", "schema-version", message, str(SCHEMA_VERSION))


def refuse(path: str, rule: str, message: str, suggestion: str | None = None) -> NoReturn:
    """Raise ManifestError for one thing that is wrong."""
    raise ManifestError([Problem(path, rule, message, suggestion=suggestion)])


def load_json(body: str | bytes) -> Any:
    """Read untrusted JSON within bounds: 1 MiB, 32 levels, 20,000 values, 64-bit numbers, no field twice.

    Raises
    ------
    ManifestError
        It is not such JSON.
    """
    try:
        encoded = body.encode() if isinstance(body, str) else body
        check_size(len(encoded))
        data = json.loads(encoded.decode(), object_pairs_hook=_unique, parse_int=_integer, parse_constant=_constant)
    except ManifestError:
        raise
    except RecursionError:
        refuse("", "depth", "is nested too deep")
    except ValueError as error:  # JSONDecodeError and Unicode errors
        refuse("", "json", f"is not JSON: {error}"[:200])
    check_structure(data)
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        refuse(path_of((repeated,)), "duplicate", "is given more than once")
    return found


def _integer(text: str) -> int:
    if len(text) > 20:  # no 64-bit number is longer
        refuse("", "integer", f"{shown(text)} is a number beyond 64 bits")
    return int(text)


def _constant(text: str) -> NoReturn:
    refuse("", "json", f"{text} is not a JSON number")
