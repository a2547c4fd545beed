"""Events, decisions and figures: kept for a limited time, or pushed to a receiver."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from reservoir.core.history.gauges import Gauge
from reservoir.core.history.past_demand import DemandStep
from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import Sample
from reservoir.core.model.decision_summary import DecisionSummary


class HistoryStore(Protocol):
    """Events of the outbound bus, by object and by time; and what there was, by time."""

    def keep(self, events: Sequence[PastEvent]) -> None:
        """Keep events; one that is already kept is left unchanged."""
        ...

    def of_object(self, name: str, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield what happened to one object from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...

    def timeline(self, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield everything that happened from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...

    def keep_demand(self, steps: Sequence[DemandStep]) -> None:
        """Keep steps of demand; one that is already kept is replaced by the same again."""
        ...

    def demand(self, since: datetime, until: datetime) -> Iterator[DemandStep]:
        """Yield the steps of demand from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...

    def keep_sample(self, sample: Sample) -> None:
        """Keep what there was at an instant."""
        ...

    def samples(self, since: datetime, until: datetime) -> Iterator[Sample]:
        """Yield what there was from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """A stored plan and why. The snapshot that it was made from is kept beside it, so that it can be replayed.

    ``policy_json``: the planner's settings (``reservoir.core.serialisation.policy_json``); None for decisions of
    disruption, and for decisions of releases that did not keep it.
    """

    plan_id: str
    made_at: datetime
    plan_json: str
    summary: Mapping[str, int] = field(default_factory=dict)
    policy_json: str | None = None


class DecisionStore(Protocol):
    """Plans and their snapshots, for a limited time."""

    def save(self, decision: Decision, snapshot_json: str) -> None:
        """Keep a decision and its snapshot."""
        ...

    def save_if_changed(self, decision: Decision, snapshot_json: str) -> None:
        """Keep a decision, unless the one with its id is the same for the same snapshot; that keeps its ``made_at``."""
        ...

    def load(self, plan_id: str) -> tuple[Decision, str] | None:
        """Return a decision and its snapshot, None when unknown or expired. Raises UnreadableRowsError."""
        ...

    def summaries(self, plan_ids: Collection[str]) -> Mapping[str, DecisionSummary]:
        """Return the summaries of the decisions that are kept, by id.

        Raises UnreadableRowsError with all unreadable ones.
        """
        ...


class TelemetryRefusedError(Exception):
    """The receiver did not take the figures, or could not be reached in time."""


class Telemetry(Protocol):
    """A receiver of figures."""

    def push(self, gauges: Sequence[Gauge], at: datetime) -> None:
        """Send the levels of a moment. Raises TelemetryRefusedError."""
        ...
