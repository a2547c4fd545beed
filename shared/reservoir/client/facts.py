"""Facts of the outbound bus as a subscription's queue delivers them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.event_parts import Event
from reservoir.manifests.events import (
    EVENTS,
    NodeDraining,
    NodeLaunched,
    NodeTerminated,
    WorkloadAccepted,
    WorkloadIgnored,
    WorkloadRejected,
)
from reservoir.names import EVENT_SOURCE

_MODELS: Final[Mapping[str, type[Event]]] = {model.detail_type: model for model in EVENTS}
# Answers to a message: only their sender has a use for them.
ANSWERS: Final = (WorkloadAccepted, WorkloadDescribed, WorkloadIgnored, WorkloadRejected)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. ``id`` is EventBridge's: a delivery that is repeated has the same, a step that is repeated has not."""

    id: str
    time: datetime
    event: Event

    @property
    def identity(self) -> str:
        """The key that identifies repeats: the drain or the claim that it is about, where there is one, else the id."""
        event = self.event
        if isinstance(event, NodeDraining):
            # A notice is repeated under its drain's id; one that names more workloads is news to those.
            told = sorted(f"{it.namespace}/{it.name}" for it in event.workloads)
            digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
            return f"{event.detail_type} {event.drain_id} {event.deadline.isoformat()} {digest}"
        if isinstance(event, NodeLaunched | NodeTerminated):
            return f"{event.detail_type} {event.node.node_claim}"
        return self.id

    @property
    def workload_keys(self) -> frozenset[str]:
        """The workloads that it names, as ``namespace/name``."""
        references = [getattr(self.event, "workload", None)]
        references += [
            *getattr(self.event, "workloads", ()),
            *getattr(self.event, "returned", ()),
        ]
        return frozenset(f"{it.namespace}/{it.name}" for it in references if it is not None)


def parse_fact(body: str) -> Fact | None:
    """Read a message of the queue; None for one that is no fact of this release: others may write to a bus too."""
    try:
        envelope: Any = json.loads(body)
        model = (
            _MODELS.get(envelope["detail-type"])
            if envelope["source"] == EVENT_SOURCE
            else None
        )
        if model is None:
            return None
        detail = model.model_validate_json(json.dumps(envelope["detail"]))
        return Fact(str(envelope["id"]), datetime.fromisoformat(envelope["time"]), detail)
    except (ValueError, ValidationError, KeyError, TypeError, RecursionError):
        return None
