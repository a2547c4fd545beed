"""What programs read of ``-o json`` and ``-o yaml``: fields are added, never renamed and never taken away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from reservoir.manifests.answers.advice import AdviceAnswer
from reservoir.manifests.answers.assessment import AssessmentAnswer
from reservoir.manifests.answers.explanations import NodeExplanation, WorkloadExplanation
from reservoir.manifests.answers.finished import FinishedAnswer
from reservoir.manifests.answers.listed import (
    BlockOfferingRow,
    CalendarRow,
    DecisionRow,
    NodeRow,
    OfferingRow,
    ReservationRow,
    WorkloadRow,
)
from reservoir.manifests.answers.overview import StatusAnswer
from reservoir.manifests.answers.what_if import ApplyAnswer, ReplayAnswer, WhatIfAnswer

PROMISED = Path(__file__).with_name("printed_fields.txt")
PRINTED: tuple[type[BaseModel], ...] = (
    AdviceAnswer,
    ApplyAnswer,
    AssessmentAnswer,
    BlockOfferingRow,
    CalendarRow,
    DecisionRow,
    FinishedAnswer,
    NodeExplanation,
    NodeRow,
    OfferingRow,
    ReplayAnswer,
    ReservationRow,
    StatusAnswer,
    WhatIfAnswer,
    WorkloadExplanation,
    WorkloadRow,
)


def fields(schema: Any, definitions: Any, path: str) -> Iterator[str]:
    """Yield the paths of a schema's fields, those of lists as their items'."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for part in (
        *schema.get("anyOf", ()),
        *([schema["items"]] if "items" in schema else ()),
    ):
        yield from fields(part, definitions, path)
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from fields(field, definitions, f"{path}.{name}")


def printed(model: type[BaseModel]) -> set[str]:
    schema = model.model_json_schema(mode="serialization")
    return set(fields(schema, schema.get("$defs", {}), model.__name__))


@pytest.mark.parametrize("model", PRINTED, ids=lambda model: model.__name__)
def test_what_was_promised_is_there_and_what_is_there_is_promised(
    model: type[BaseModel],
) -> None:
    promised = {
        line
        for line in PROMISED.read_text().splitlines()
        if line.startswith(f"{model.__name__}.")
    }
    there = printed(model)
    assert promised - there == set(), "programs read this; it must not go"
    assert there - promised == set(), f"add it to {PROMISED.name}: it stays from now on"
