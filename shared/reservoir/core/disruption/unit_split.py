"""One unit that is to be split off a reservation, so that EC2 moves a running node into it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnitSplit:
    """A free unit of ``source_id`` for a node that was launched at the group; EC2 chooses which one moves in."""

    source_id: str
    group_arn: str
    for_node: str
    explanation: str
