"""Nodes of a solve: existing ones and planned ones, equal ones together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reservoir.core.model.snapshot import Node
from reservoir.core.scheduling_terms.taint import Taint
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group


@dataclass(slots=True, eq=False, kw_only=True)
class Bin:
    """``count`` equal nodes: one existing node, or planned nodes of one option.

    ``contents`` is replicas per node by group, ``levels`` the relaxation level that each group needed there;
    ``residents`` are (matching, anti mask, count) of what already ran.
    """

    uid: int
    labels: Mapping[str, str]
    requirement_sets: int
    free: list[int]
    taints: tuple[Taint, ...] = ()
    node: Node | None = None
    option: LaunchOption | None = None
    count: int = 1
    residents: tuple[tuple[int, int, int], ...] = ()
    contents: dict[int, int] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)

    @property
    def is_paid(self) -> bool:
        """Whether the nodes are being bought."""
        return self.option is not None and self.option.reservation is None

    def is_open_to(self, group: Group) -> bool:
        """Whether a price cap lets the group share the nodes: only if none pays for them."""
        return not (self.is_paid and group.is_price_capped)

    def split(self, uid: int, count: int) -> "Bin":
        """Take ``count`` of the nodes out as a bin of their own."""
        self.count -= count
        free, contents, levels = list(self.free), dict(self.contents), dict(self.levels)
        return replace(
            self, uid=uid, count=count, free=free, contents=contents, levels=levels
        )


def total_load(
    groups: Sequence[Group], contents: Mapping[int, int], dimensions: int
) -> list[int]:
    """Sum what the contents of one node take."""
    load = [0] * dimensions
    for index, count in contents.items():
        for dimension, asked in enumerate(groups[index].request):
            load[dimension] += asked * count
    return load
