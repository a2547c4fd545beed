"""The decision: demand onto reserved capacity first, then onto the cheapest offering (docs/scheduler.md).

`teams` decides how much of each reservation, quota and budget a team may use; `placement` decides, without knowing of
teams, which nodes are launched for which replicas; `certificate` adds how far a plan can be from the cheapest;
`part_of_demand` says what waits of demand that there was no time to read.
"""

from reservoir.core.scheduler.teams import solve

__all__ = ["solve"]
