"""``docs/asyncapi.yaml`` describes the queues and the bus as AsyncAPI 3 says, and as they are."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reservoir.manifests.event_parts import Event
from reservoir.manifests.events import EVENTS
from reservoir.manifests.messages import MESSAGES
from tests.manifests.test_events import ONE_OF_EACH

DOCUMENT: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "asyncapi.yaml").read_text()
)
# The fields that AsyncAPI 3.0.0 has for these objects, as far as the document uses them.
FIELDS = {
    "channels": {"address", "description", "servers", "messages"},
    "operations": {"action", "channel"},
    "servers": {"host", "protocol", "variables"},
}


def references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def found(reference: str) -> Any:
    """What a reference within the document names; a KeyError if there is nothing."""
    part: Any = DOCUMENT
    assert reference.startswith("#/")
    for name in reference[2:].split("/"):
        part = part[name]
    return part


def accepts(payload: Any, value: Any) -> None:
    jsonschema.validate(value, {**payload, "components": DOCUMENT["components"]})


def test_it_has_the_form_of_asyncapi_3() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= set(DOCUMENT["info"])
    for kind, fields in FIELDS.items():
        assert {name for each in DOCUMENT[kind].values() for name in each} == fields
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert found(operation["channel"]["$ref"])["messages"]
    for message in DOCUMENT["components"]["messages"].values():
        assert {"name", "summary", "payload"} <= set(message)
        assert message["summary"]


def test_every_reference_names_something_and_every_schema_is_one() -> None:
    named = set(references(DOCUMENT))
    assert len(named) > len(EVENTS)
    for reference in named:
        found(reference)
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_message_and_every_event_is_in_its_channel() -> None:
    channels = {
        name: set(channel["messages"]) for name, channel in DOCUMENT["channels"].items()
    }
    assert channels["demand"] == {model.__name__ for model in MESSAGES.values()}
    assert channels["facts"] == {event.__name__ for event in EVENTS}
    assert set().union(*channels.values()) == set(DOCUMENT["components"]["messages"])


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.detail_type)
def test_an_event_as_the_bus_delivers_it_is_what_it_says(event: Event) -> None:
    payload = DOCUMENT["components"]["messages"][type(event).__name__]["payload"]
    delivered = {
        "source": "reservoir",
        "detail-type": event.detail_type,
        "detail": event.detail(),
    }
    accepts(payload, delivered)
    with pytest.raises(jsonschema.ValidationError):
        accepts(payload, {**delivered, "detail": {}})


def test_a_message_is_what_it_says() -> None:
    payload = DOCUMENT["components"]["messages"]["WithdrawMessage"]["payload"]
    metadata = {"namespace": "research", "name": "train", "generation": 2}
    accepts(payload, {"action": "withdraw", "workload": {"metadata": metadata}})
    with pytest.raises(jsonschema.ValidationError):
        accepts(
            payload,
            {"action": "withdraw", "workload": {"metadata": {**metadata, "generation": 0}}},
        )
