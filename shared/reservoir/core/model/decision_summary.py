"""What is shown of a decision without its plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """When a decision was made, and its results as counts, by what is counted."""

    plan_id: str
    made_at: datetime
    counts: Mapping[str, int]
