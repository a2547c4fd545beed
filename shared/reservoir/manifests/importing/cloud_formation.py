"""CloudFormation's templates as plain values: short forms of functions are written out, parameters have defaults."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from reservoir.manifests.parsing.load import Document

_FUNCTIONS: Final = (
    "And|Base64|Cidr|Condition|Equals|FindInMap|GetAtt|GetAZs|If|ImportValue|Join|Length|Not|Or|Ref|Select|Split|Sub"
    "|ToJsonString|Transform"
)
# A plain or quoted text after the function, on the same line.
_OF_A_TEXT: Final = re.compile(
    rf"(?<=[\s\[,:-])!({_FUNCTIONS})[ \t]+(\"[^\"\n]*\"|'[^'\n]*'"
    r"|(?:\$\{[^}\n]*\}|[^\s!,\[\]{}|>'\"#])(?:\$\{[^}\n]*\}|[^\s,\]{}#])*)"
)
_OF_MORE: Final = re.compile(rf"(?<=[\s\[,:-])!({_FUNCTIONS})\b[ \t]*")
_RESOURCES: Final = re.compile(r"^Resources:|\"Resources\"\s*:", re.MULTILINE)


def written_out(text: str) -> str:
    """Return a template without YAML's short forms, line for line; any other text as it is.

    What a function is given that is no plain text stays without it: it is no plain value either.
    """
    if _RESOURCES.search(text) is None:
        return text
    plain = _OF_A_TEXT.sub(lambda it: f"{{{_long(it[1])}: {_quoted(it[2])}}}", text)
    return _OF_MORE.sub("", plain)


def is_template(value: Mapping[str, Any]) -> bool:
    """Whether a document is one of CloudFormation's."""
    resources = value.get("Resources")
    return isinstance(resources, dict) and any(
        isinstance(each, dict) and str(each.get("Type", "")).startswith("AWS::")
        for each in resources.values()
    )


def with_defaults(document: Document) -> Document:
    """Return a template in which parameters are replaced by their defaults."""
    stated = document.value.get("Parameters")
    parameters = stated if isinstance(stated, dict) else {}
    defaults = {
        name: said["Default"]
        for name, said in parameters.items()
        if isinstance(said, dict) and said.get("Default") not in (None, "")
    }
    return replace(document, value=_resolved(document.value, defaults))


def _resolved(value: Any, defaults: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_resolved(item, defaults) for item in value]
    if not isinstance(value, dict):
        return value
    named = value.get("Ref") if len(value) == 1 else None
    if isinstance(named, str) and named in defaults:
        return defaults[named]
    return {key: _resolved(item, defaults) for key, item in value.items()}


def _quoted(text: str) -> str:
    """Quote a plain text: within braces it would end at the first of a variable."""
    return text if text[0] in "\"'" else "'" + text.replace("'", "''") + "'"


def _long(name: str) -> str:
    return name if name in ("Ref", "Condition") else f"Fn::{name}"
