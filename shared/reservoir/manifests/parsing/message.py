"""Messages as untrusted JSON: read within bounds; a field names the kind of message."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

from pydantic import Field, ValidationError

from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.parsing.errors import problems_of
from reservoir.manifests.parsing.model import Model
from reservoir.manifests.parsing.problems import ManifestError, Problem, path_of, shown
from reservoir.manifests.parsing.structure import (
    LARGEST_MESSAGE_BYTES,
    MOST_VALUES_OF_A_MESSAGE,
    check_size,
    check_structure,
)

SCHEMA_VERSION: Final = 1
# The most problems that an event or a line of a log names; a suggestion costs a millisecond each.
_MOST_PROBLEMS: Final = 20
_MOST_SUGGESTIONS: Final = 5

SchemaVersion = Annotated[Literal[1], Field(description="Version of the message format.")]
M = TypeVar("M", bound=Model)


def read_message(body: str | bytes, tag: str, models: Mapping[str, type[M]]) -> M:
    """Read a message of one of ``models``: the one that its field ``tag`` names.

    Raises
    ------
    ManifestError
        It is none; with all problems that can be found.
    """
    data = load_json(body)
    if not isinstance(data, dict):
        refuse("", "message", "must be a JSON object")
    _check_version(data)
    name = data.get(tag)
    model = models.get(name) if isinstance(name, str) else None
    if model is None:
        hint = closest(name, models) if isinstance(name, str) else None
        refuse(tag, tag, f"{shown(name)} is not one of {', '.join(models)}", hint)
    return validated(model, data)


def validated(model: type[M], data: object) -> M:
    """Read a value that came without lines, as from JSON. Raises ManifestError."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = problems_of(
            error,
            model,
            line_of=lambda _: None,
            most=_MOST_PROBLEMS,
            most_suggestions=_MOST_SUGGESTIONS,
        )
        raise ManifestError(problems) from None


def refuse(path: str, rule: str, message: str, suggestion: str | None = None) -> NoReturn:
    """Raise ManifestError for one thing that is wrong."""
    raise ManifestError([Problem(path, rule, message, suggestion=suggestion)])


def load_json(body: str | bytes) -> Any:
    """Read untrusted JSON within bounds: 128 KiB, 32 levels, 4,000 values, 64-bit numbers, no field twice.

    Raises
    ------
    ManifestError
        It is not such JSON.
    """
    try:
        encoded = body.encode() if isinstance(body, str) else body
        check_size(len(encoded), most=LARGEST_MESSAGE_BYTES)
        data = json.loads(
            encoded.decode(),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except ManifestError:
        raise
    except RecursionError:
        refuse("", "depth", "is nested too deep")
    except ValueError as error:  # JSONDecodeError and Unicode errors
        refuse("", "json", f"is not JSON: {error}"[:200])
    check_structure(data, most_values=MOST_VALUES_OF_A_MESSAGE)
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        times = Counter(name for name, _ in pairs)
        repeated = next(name for name in times if times[name] > 1)
        refuse(path_of((repeated,)), "duplicate", "is given more than once")
    return found


def _integer(text: str) -> int:
    if len(text) > 20:  # no 64-bit number is longer
        refuse("", "integer", f"{shown(text)} is a number beyond 64 bits")
    return int(text)


def _constant(text: str) -> NoReturn:
    refuse("", "json", f"{text} is not a JSON number")


def _check_version(data: Mapping[str, Any]) -> None:
    version = data.get("schemaVersion", SCHEMA_VERSION)
    if version != SCHEMA_VERSION or isinstance(version, bool):
        message = f"{shown(version)} is not a known version; {SCHEMA_VERSION} is the latest"
        refuse("schemaVersion", "schema-version", message, str(SCHEMA_VERSION))
