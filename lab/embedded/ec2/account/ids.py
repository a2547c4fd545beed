"""Identifiers in EC2's formats, the same in every run that makes the same calls."""

import hashlib
import uuid
from collections import Counter


class IdMaker:
    """Makes ids by hashing a counter, so that a failing test names the same ids again."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._issued: Counter[str] = Counter()

    def resource(self, prefix: str) -> str:
        """Return an id such as ``cr-0`` followed by 16 hexadecimal digits."""
        return f"{prefix}-0{self._digest(prefix)[:16]}"

    def uuid(self, purpose: str) -> str:
        """Return a UUID, as events, requests and fleets carry them."""
        return str(uuid.UUID(self._digest(purpose)[:32]))

    def _digest(self, purpose: str) -> str:
        self._issued[purpose] += 1
        return hashlib.sha256(
            f"{self._seed}/{purpose}/{self._issued[purpose]}".encode()
        ).hexdigest()
