"""How answers are printed: lines for people, one document for programs."""

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from reservoir.cli.console import output
from reservoir.cli.output import API_VERSION
from reservoir.manifests.answers.render import to_yaml

if TYPE_CHECKING:
    from rich.console import RenderableType


class Format(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="For people: text. For programs: json, yaml."),
]


def print_answer(
    kind: str, answer: BaseModel, lines: Iterable["RenderableType"], form: Format
) -> None:
    """Print an answer; ``lines`` are made only if they are wanted."""
    if form is Format.TEXT:
        for line in lines:
            output().print(line)
        return
    document = {
        "apiVersion": API_VERSION,
        "kind": kind,
        **answer.model_dump(mode="json", exclude_none=True),
    }
    if form is Format.JSON:
        output().print(json.dumps(document, indent=2))
    else:
        output().print(to_yaml([document]), end="")
