"""As much of CloudWatch Logs Insights' language as the dashboard speaks; what it does not know, it refuses."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

_EXPRESSION: Final = re.compile(
    r"(latest|max)\((?:toMillis\((@?\w+)\)|(@?\w+))\)(?: / (\d+))? as (\w+)"
)
_COMPARISON: Final = re.compile(r"(\w+) ([<>]) (\w+)(?: \+ (\d+))?")


def answer(query: Sequence[str], lines: Sequence[Row]) -> list[Row]:
    """Return the rows of a query's answer; ``lines`` are those of the log, the oldest first."""
    rows = list(lines)
    for command in query:
        name, _, rest = command.partition(" ")
        rows = _COMMANDS[name](rest, rows)
    return rows


def _filter(condition: str, rows: list[Row]) -> list[Row]:
    for part in condition.split(" and "):
        rows = [row for row in rows if _holds(part, row)]
    return rows


def _holds(part: str, row: Row) -> bool:
    if equal := re.fullmatch(r"(\w+) = '([^']*)'", part):
        return bool(row.get(equal[1]) == equal[2])
    if present := re.fullmatch(r"ispresent\((\w+)\)", part):
        return present[1] in row
    if among := re.fullmatch(r"(\w+) in \[(.*)\]", part):
        return row.get(among[1]) in re.findall(r"'([^']*)'", among[2])
    compared = _COMPARISON.fullmatch(part)
    assert compared is not None, part
    left, right = row[compared[1]], row[compared[3]] + int(compared[4] or 0)
    return bool(left < right if compared[2] == "<" else left > right)


def _stats(what: str, rows: list[Row]) -> list[Row]:
    expressions, _, key = what.partition(" by ")
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        group = found.setdefault(row[key], {key: row[key]})
        for text in expressions.split(", "):
            match = _EXPRESSION.fullmatch(text)
            assert match is not None, text
            field = match[2] or match[3]
            if field in row:
                value = row[field].timestamp() * 1000 if match[2] else row[field]
                group[match[5]] = value / int(match[4]) if match[4] else value
    return list(found.values())


def _sort(order: str, rows: list[Row]) -> list[Row]:
    field, _, direction = order.partition(" ")
    return sorted(rows, key=lambda row: row[field], reverse=direction == "desc")


def _display(fields: str, rows: list[Row]) -> list[Row]:
    return [{field: row[field] for field in fields.split(", ")} for row in rows]


_COMMANDS: Final[Mapping[str, Callable[[str, list[Row]], list[Row]]]] = {
    "filter": _filter,
    "stats": _stats,
    "sort": _sort,
    "display": _display,
    "limit": lambda count, rows: rows[: int(count)],
}
