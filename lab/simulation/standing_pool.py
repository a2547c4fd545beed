"""A static pool beside the first one, of the same class: it wants a node on each unit, or so many."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.simulation.catalogue import node_pool_manifest
from lab.simulation.kernel import Chance

STANDING: Final = "standing"
ALL_RESERVED: Final = "allReserved"
_MARKETS: Final = (
    ("reserved",),
    ("reserved", "on-demand"),
    ("reserved", "spot", "on-demand"),
)
_MOST: Final = 3


@dataclass
class StandingPool:
    """The pool, and how its owner changes it. ``sizes`` are all that it ever wanted; None: all reserved units."""

    chance: Chance
    put: Callable[[Mapping[str, Any], int], None]  # apply a manifest, at a generation
    generation: int = 0
    follows: bool = False
    most_wanted: int = 0
    template: Mapping[str, Any] | None = None

    @property
    def exists(self) -> bool:
        """Whether the world has it."""
        return self.generation > 0

    def begin(self) -> None:
        """Make it."""
        self.follows = self.chance.between("standing", 0, 1) == 0
        self._markets = _MARKETS[self.chance.between("standing", 0, len(_MARKETS) - 1)]
        self._apply()

    def change(self) -> None:
        """Let its owner want more nodes or fewer, or change its template: its nodes drift."""
        if not self.exists:
            return
        if self.follows or self.chance.between("standing", 0, 1):
            self.template = {"labels": {"standing": str(self.generation)}}
        self._apply()

    def _apply(self) -> None:
        self.generation += 1
        manifest = node_pool_manifest(
            STANDING, self._markets, {"consolidateAfter": "0s"}, {}
        )
        if self.template is not None:
            manifest["spec"]["template"]["metadata"] = self.template
        if self.follows:
            manifest["spec"]["replicas"] = ALL_RESERVED
        else:
            wanted = self.chance.between("standing", 0, _MOST)
            manifest["spec"]["replicas"] = wanted
            self.most_wanted = max(self.most_wanted, wanted)
        self.put(manifest, self.generation)
