"""At which calls to the outside functions died, before and after the effect, and at which never."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import getmembers, isfunction
from typing import Final, get_type_hints

from lab.simulation.aws.lambdas import Aim
from lab.simulation.play import Aims, Killed, Point, Verdict
from reservoir.names import Function
from reservoir.runtime.outside import Outside

SIDES: Final = ("before", "after")
_ONE_EC2: Final = frozenset(
    {"reservation_reader", "instances", "fleet", "launch_templates"}
)
# What is outside and makes no call that could be lost.
_NO_PORTS: Final = frozenset(
    {"settings", "clock", "ids", "monotonic_s", "pause", "executor"}
)
# These are played with their real adapters, over clients whose calls are the points.
_REAL: Final = frozenset(
    {
        "queue",
        "demand",
        "dead_letters",
        "reactions",
        "start_messages",
        "endings",
        "publisher",
        "timers",
        "launch_policy",
    }
)


_COMMANDS: Final = "the command line asks, no function does"
_OPERATORS: Final = (
    "the function `apply` alone; the simulation's operators write policy themselves"
)
_COUNTED: Final = "counted without mishaps: what is lost or late moves a bound by one"
_MEMORY: Final = "no call to the outside: a process's own memory"
# Why no function makes a call that its adapter offers.
WHY_NEVER: Final[Mapping[str, str]] = {
    "alarms.alarming": _COMMANDS,
    "demand_census.add": _COUNTED,
    "demand_census.waiting_keys": _COUNTED,
    "capacity_blocks.block_status": "the machines of a block; these blocks have none that break one by one",
    "block_seller.bought": _COMMANDS,
    "block_seller.buy": _COMMANDS,
    "block_seller.try_to_buy": _COMMANDS,
    "capacity_blocks.extensions": _COMMANDS,
    "capacity_blocks.offerings": _COMMANDS,
    "decisions.load": _COMMANDS,
    "decisions.summaries": _COMMANDS,
    "ec2.delete": "launch templates go when a class changed an hour ago, or after a week; a seed is over before",
    "ec2.forget": _MEMORY,
    "history.of_object": _COMMANDS,
    "history.samples": _COMMANDS,
    "history.timeline": _COMMANDS,
    "identities.sender_of": "AWS vouches for who signed, before anything of ours is read or written",
    "passes.last": _COMMANDS,
    "policy.commit": _OPERATORS,
    "principals.unique_id": _OPERATORS,
    "purchases.book": _COMMANDS,
    "purchases.commit": _COMMANDS,
    "purchases.get": _COMMANDS,
    "purchases.list_all": _COMMANDS,
    "queues.depths": _COMMANDS,
}


def summed(verdicts: Iterable[Verdict]) -> dict[Point, Killed]:
    """Add up the points of all seeds."""
    found: dict[Point, Killed] = {}
    for verdict in verdicts:
        for point, (calls, before, after) in verdict.points.items():
            known = found.get(point, (0, 0, 0))
            found[point] = (known[0] + calls, known[1] + before, known[2] + after)
    return found


def targets(verdicts: Sequence[Verdict]) -> Iterator[tuple[int, Aims]]:
    """Yield a seed with aims for each side of a call on which nothing died: the middle one of those that were made.

    A seed plays the same until then, so that the call is made, and its function dies there; unless that very
    call is throttled before it takes effect: the next play aims with another seed.
    """
    for (function, call), killed in sorted(summed(verdicts).items()):
        met = [
            verdict
            for verdict in verdicts
            if verdict.name is None and (function, call) in verdict.points
        ]
        for side, count in zip(SIDES, killed[1:], strict=True):
            if count == 0 and met:
                tried = Counter[int]()
                for verdict in verdicts:
                    for aim in verdict.aims:
                        if (aim.function, aim.point, aim.side) == (function, call, side):
                            tried[verdict.seed] += 1
                chosen = min(
                    met, key=lambda verdict: (tried[verdict.seed], len(verdict.aims))
                )
                number = (chosen.points[function, call][0] + 1) // 2
                yield (
                    chosen.seed,
                    chosen.aims | {Aim(Function(function), call, number, side)},
                )


def possible() -> dict[str, frozenset[str]]:
    """Return the calls that ports offer, by the name that what is outside has for them."""
    found = dict[str, frozenset[str]]()
    for name, member in vars(Outside).items():
        if isinstance(member, property) and name not in _REAL | _NO_PORTS:
            offered = getmembers(get_type_hints(member.fget)["return"], isfunction)
            port = "ec2" if name in _ONE_EC2 else name
            calls = frozenset(method for method, _ in offered if not method.startswith("_"))
            found[port] = found.get(port, frozenset()) | calls
    return found


def table(
    verdicts: Sequence[Verdict],
    aimed: Sequence[Verdict],
    possible: Mapping[str, frozenset[str]],
) -> str:
    """Return the table of all points in Markdown, those first at which no function died.

    ``possible`` are the calls that adapters offer, by the name of their port; of those, the ones that nothing made are
    named.
    """
    by_chance, found = summed(verdicts), summed([*verdicts, *aimed])
    rows = sorted(found.items(), key=lambda item: (_both(item[1]), item[0]))
    made = {call for _, call in found}
    offered: set[str] = set()
    for port, methods in possible.items():
        offered.update(f"{port}.{method}" for method in methods)
    never = sorted(offered - made)
    lines = [
        "# Fault points",
        "",
        f"Calls to the outside, by function, that {len(verdicts)} seeds met: {len(found)}. At {_count(by_chance)} of",
        "them a function died by chance both right before the call and right after its effect. At what was left,",
        f"{len(aimed)} more plays aimed, each at one side; with them it is {_count(found)}. Points where it is not",
        "both come first.",
        "",
        "| function | call | made | died before | died after |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | `{call}` | {calls} | {before} | {after} |"
            for (name, call), (calls, before, after) in rows
        ),
        "",
        f"Calls that adapters offer and no function made: {len(never)}.",
        "",
        *(f"* `{call}`: {WHY_NEVER.get(call, 'nobody knows why')}" for call in never),
    ]
    return "\n".join(lines) + "\n"


def _both(killed: Killed) -> bool:
    return min(killed[1:]) > 0


def _count(found: Mapping[Point, Killed]) -> int:
    return sum(_both(killed) for killed in found.values())
