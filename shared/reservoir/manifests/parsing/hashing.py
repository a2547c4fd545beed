"""Hashes by which drift is recognised."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_DIGITS = 16  # 64 bits: two different specs of one pool do not meet by accident


def static_hash(values: Mapping[str, Any]) -> str:
    """Hash JSON-ready values: equal values give equal hashes, in any order of their keys."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
