"""The models with their bounds, and the mistakes that each must find."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """A model with bounds; ``mistake`` says what is wrong in it, None that nothing is."""

    model: str
    shows: str
    defines: tuple[str, ...]
    mistake: str | None = None


_WRITES: Final = ("DEATHS=1", "ATTEMPTS=2", "WRITES=2")
_TWICE: Final = ("DOUBLES=1", "DEATHS=0", "ENDS=0", "TICKS=3")
_DEATH: Final = ("DOUBLES=0", "DEATHS=1", "ENDS=0", "TICKS=3")
_BOTH: Final = ("DOUBLES=1", "DEATHS=1", "ENDS=0", "TICKS=2")
_END: Final = ("DOUBLES=0", "DEATHS=0", "ENDS=1", "TICKS=2")
_POOL: Final = ("DEATHS=1", "ATTEMPTS=2", "WRITES=1", "POOL_LATER")

CASES: Final = (
    Case(
        "wake.pml",
        "demand that is written and told is planned, one workload changing twice",
        _WRITES,
    ),
    Case("wake.pml", "and where a node pool comes later", _POOL),
    Case(
        "wake.pml",
        "in the end everything is placed",
        ("DEATHS=1", "ATTEMPTS=2", "WRITES=1", "LIVENESS"),
    ),
    Case(
        "wake.pml",
        "",
        (*_WRITES, "ACK_FIRST"),
        "the pass deletes what woke it before it commits",
    ),
    Case(
        "wake.pml",
        "",
        (*_WRITES, "DEDUPLICATED"),
        "the queue drops a wake-up like an earlier one",
    ),
    Case(
        "wake.pml",
        "",
        (*_WRITES, "UNNAMED"),
        "wake-ups name nobody, and no pass waits for the index",
    ),
    Case(
        "wake.pml",
        "",
        (*_WRITES, "NO_SECOND_WAKE"),
        "a pass that lost its races wakes nobody",
    ),
    Case("wake.pml", "", (*_POOL, "ANY_LAG"), "the index lags longer than the pass waits"),
    Case(
        "wake.pml",
        "",
        (*_POOL, "EMPTY_HANDED"),
        "a pass that finds nobody listed waits for no index",
    ),
    Case(
        "groups.pml",
        "of groups side by side nobody waits who has room, no limit is exceeded",
        ("DEATHS=1",),
    ),
    Case("groups.pml", "and where there is room for all but one", ("DEATHS=0", "ROOM=2")),
    Case(
        "groups.pml", "and where a writer dies before its wake-up", ("DEATHS=0", "UNTOLD")
    ),
    Case(
        "groups.pml",
        "and where whoever finds out may plan for all groups at once",
        ("DEATHS=0", "FEW"),
    ),
    Case("groups.pml", "", ("DEATHS=1", "NO_TURNS"), "a commit of a plan counts no turns"),
    Case(
        "groups.pml",
        "",
        ("DEATHS=1", "ACK_FIRST"),
        "the pass deletes what woke it before it has handed on",
    ),
    Case(
        "groups.pml",
        "",
        ("DEATHS=0", "UNTOLD", "STALE_DROPPED"),
        "a wake-up for a part of another group is not handed on",
    ),
    Case(
        "groups.pml",
        "",
        ("DEATHS=0", "PARTS_FORGOTTEN"),
        "a wake-up says no more than its group's name",
    ),
    Case(
        "launch.pml",
        "no unit is promised twice, no claim launched twice: a message comes twice",
        _TWICE,
    ),
    Case("launch.pml", "and where a launch dies", _DEATH),
    Case("launch.pml", "and where both happen", _BOTH),
    Case("launch.pml", "and where an instance ends and its unit is used again", _END),
    Case(
        "launch.pml",
        "",
        (*_TWICE, "NO_LEASE_CONDITION"),
        "a commit trusts the balance that the planner read",
    ),
    Case(
        "launch.pml",
        "",
        (*_TWICE, "ABSORB_ALL"),
        "an observation closes leases that it may not contain",
    ),
    Case(
        "launch.pml",
        "",
        (*_TWICE, "BLIND_LAUNCH"),
        "EC2 is asked for a claim that was given back",
    ),
    Case(
        "launch.pml",
        "",
        (*_TWICE, "STALE_MARK"),
        "a run does not see that another has marked the claim",
    ),
    Case(
        "launch.pml",
        "",
        (*_TWICE, "OVERTAKEN"),
        "a run closes the attempt that another has begun",
    ),
    Case(
        "launch.pml",
        "",
        (*_TWICE, "ADOPT_EARLY"),
        "EC2's list is believed while somebody may still ask",
    ),
    Case(
        "launch.pml",
        "",
        (*_DEATH, "ALWAYS_REPLAY"),
        "a request is sent again however old its token is",
    ),
)
