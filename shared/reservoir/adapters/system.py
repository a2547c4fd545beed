"""The clock and the ids of a running function."""

import uuid
from datetime import UTC, datetime


class SystemClock:
    """Implements ``reservoir.ports.system.Clock``."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)


class RandomIds:
    """Implements ``reservoir.ports.system.IdFactory``."""

    def new_id(self, prefix: str) -> str:
        """Return a new id; 80 random bits, short enough for tags, labels and deduplication ids."""
        return f"{prefix}-{uuid.uuid4().hex[:20]}"
