"""The nodes of a solve: a bin is one existing node, or several equal planned nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reservoir.core.model.snapshot import Node
from reservoir.core.scheduling_terms.taint import Taint
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group


@dataclass(slots=True, eq=False, kw_only=True)
class Bin:
    """``count`` equal nodes: one existing node, or planned nodes of one launch option.

    ``contents`` is the number of replicas on each node by group index, ``levels`` the relaxation level that each group
    needed there. ``residents`` has (matching, anti mask, count) of the replicas that already ran before the solve.
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
        """Whether the plan buys the nodes: they are planned, and take no reserved unit."""
        return self.option is not None and self.option.reservation is None

    def is_open_to(self, group: Group) -> bool:
        """Whether the group's price cap lets it join the nodes: a capped group joins no nodes that are bought."""
        return not (self.is_paid and group.is_price_capped)

    def split(self, uid: int, count: int) -> "Bin":
        """Remove ``count`` of the nodes from this bin and return them as a bin of their own."""
        self.count -= count
        free, contents, levels = list(self.free), dict(self.contents), dict(self.levels)
        return replace(
            self, uid=uid, count=count, free=free, contents=contents, levels=levels
        )


def total_load(
    groups: Sequence[Group], contents: Mapping[int, int], dimensions: int
) -> list[int]:
    """Return the sum of the requests of the replicas on one node, by dimension."""
    load = [0] * dimensions
    for index, count in contents.items():
        for dimension, asked in enumerate(groups[index].request):
            load[dimension] += asked * count
    return load
