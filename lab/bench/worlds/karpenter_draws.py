"""The pods that Karpenter's own benchmark draws, one by one.

Its generator takes its numbers from Go's ``math/rand``. ``data/karpenter_draws.json`` has, for each seed, what
``rand.New(rand.NewSource(seed)).Int31()`` returned, modulo 210 and as bytes in base64; ``Intn(n)`` is that modulo n for
each n that the generator asks for (5, 6 and 7). Karpenter's seed is 42. A thousand of its pods are 665 kinds.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from lab.bench.worlds import ladder
from lab.bench.worlds.common import counted
from reservoir.core.model.snapshot import Snapshot

_T = TypeVar("_T")
_DATA: Final = Path(__file__).parent / "data" / "karpenter_draws.json"
SEEDS: Final = (42, 43, 44)


class _GoDraws:
    """Draws as Go's ``math/rand`` does; enough for 2,000 pods."""

    def __init__(self, seed: int) -> None:
        self._numbers = iter(base64.b64decode(json.loads(_DATA.read_text())[str(seed)]))

    def choice(self, seq: Sequence[_T], /) -> _T:
        return seq[next(self._numbers) % len(seq)]


def karpenter_snapshot(count: int, seed: int) -> Snapshot:
    """Return the ladder's cluster with that many pods of Karpenter's own draw pending."""
    return ladder.snapshot(counted(ladder.drawn(count, _GoDraws(seed)), "pod"))
