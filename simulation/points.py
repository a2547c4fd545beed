"""At which calls to the outside functions died, before and after the effect, and at which never."""

from collections.abc import Iterable, Sequence

from simulation.play import Killed, Point, Verdict


def summed(verdicts: Iterable[Verdict]) -> dict[Point, Killed]:
    """Add up the points of all seeds."""
    found: dict[Point, Killed] = {}
    for verdict in verdicts:
        for point, (calls, before, after) in verdict.points.items():
            known = found.get(point, (0, 0, 0))
            found[point] = (known[0] + calls, known[1] + before, known[2] + after)
    return found


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the table of all points in Markdown, those first at which no function died."""
    found = summed(verdicts)
    both = sum(before > 0 and after > 0 for _, before, after in found.values())
    rows = sorted(found.items(), key=lambda item: (min(item[1][1:]) > 0, item[0]))
    lines = [
        "# Fault points",
        "",
        f"Calls to the outside, by function, that {len(verdicts)} seeds met: {len(found)}. At {both} of them a",
        "function died both right before the call and right after its effect. Those at which it did not come first.",
        "",
        "| function | call | made | died before | died after |",
        "|---|---|---|---|---|",
        *(f"| {name} | `{call}` | {calls} | {before} | {after} |" for (name, call), (calls, before, after) in rows),
    ]
    return "\n".join(lines) + "\n"
