"""The AsyncAPI 3 description of what goes into the queues and what comes out on the bus, made from the models."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from docs.untitled import Untitled
from reservoir.manifests.events import EVENTS
from reservoir.manifests.messages import (
    DescribeMessage,
    ReleaseMessage,
    SubmitMessage,
    WithdrawMessage,
)
from reservoir.manifests.reports import REPORTS
from reservoir.names import EVENT_SOURCE

_VERSION: Final = "3.0.0"
_DEMAND: Final = (SubmitMessage, WithdrawMessage, ReleaseMessage, DescribeMessage)
_ADDRESSES: Final = {
    "demand": "The queue of the stack's output DemandQueueUrl; standard: neither order nor delivery once is promised.",
    "reports": "The queue of the stack's output ReportsQueueUrl: what nodes tell of the replicas on them.",
    "facts": "The EventBridge bus of the stack's output EventBusName; a fact may come twice, and in any order.",
}


def asyncapi() -> dict[str, Any]:
    """Return the document."""
    received = {model.__name__: model for model in (*_DEMAND, *REPORTS.values())}
    told = {event.__name__: event for event in EVENTS}
    names, schemas = _schemas(received, told)
    messages = {
        name: _message(model, {"$ref": names[name]}) for name, model in received.items()
    }
    for name, event in told.items():
        messages[name] = _message(event, _envelope(event.detail_type, names[name])) | {
            "title": event.detail_type
        }
    channels = {
        "demand": [model.__name__ for model in _DEMAND],
        "reports": [model.__name__ for model in REPORTS.values()],
        "facts": list(told),
    }
    return {
        "asyncapi": _VERSION,
        "info": {
            "title": "Reservoir",
            "version": "1",
            "description": "What workload systems and nodes send to Reservoir, and what it tells them.",
        },
        "defaultContentType": "application/json",
        "servers": {
            "sqs": {
                "host": "sqs.{region}.amazonaws.com",
                "protocol": "sqs",
                "variables": {"region": {}},
            },
            "eventbridge": {
                "host": "events.{region}.amazonaws.com",
                "protocol": "https",
                "variables": {"region": {}},
            },
        },
        "channels": {name: _channel(name, members) for name, members in channels.items()},
        "operations": {
            f"{'send' if name == 'facts' else 'receive'}{name.capitalize()}": {
                "action": "send" if name == "facts" else "receive",
                "channel": {"$ref": f"#/channels/{name}"},
            }
            for name in channels
        },
        "components": {"messages": messages, "schemas": schemas},
    }


def _schemas(
    received: Mapping[str, type[BaseModel]], told: Mapping[str, type[BaseModel]]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return where each model's schema is, and all schemas; what is received is read, what is told is written."""
    wanted: list[Any] = [(model, "validation") for model in received.values()]
    wanted += [(model, "serialization") for model in told.values()]
    placed, definitions = models_json_schema(
        wanted,
        ref_template="#/components/schemas/{model}",
        schema_generator=Untitled,
    )
    names = {model.__name__: str(schema["$ref"]) for (model, _), schema in placed.items()}
    return names, dict(sorted(definitions["$defs"].items()))


def _channel(name: str, members: list[str]) -> dict[str, Any]:
    server = "eventbridge" if name == "facts" else "sqs"
    return {
        "address": None,
        "description": _ADDRESSES[name],
        "servers": [{"$ref": f"#/servers/{server}"}],
        "messages": {
            member: {"$ref": f"#/components/messages/{member}"} for member in members
        },
    }


def _message(model: type[BaseModel], payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": model.__name__,
        "summary": " ".join((model.__doc__ or "").split()),
        "payload": payload,
    }


def _envelope(detail_type: str, reference: str) -> dict[str, Any]:
    """Return what EventBridge delivers around a fact, as far as Reservoir decides it."""
    return {
        "type": "object",
        "required": ["source", "detail-type", "detail"],
        "properties": {
            "source": {"const": EVENT_SOURCE},
            "detail-type": {"const": detail_type},
            "detail": {"$ref": reference},
        },
    }
