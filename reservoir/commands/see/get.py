"""``reservoir get``."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from reservoir.console import fail, output
from reservoir.objects import does_not_exist, kind_of
from reservoir.policy import attempt, connection
from shared.manifests.render import to_json, to_yaml
from shared.ports.policy import PolicyKind
from shared.usecases.policy.show_policy import ShowPolicy


class Format(StrEnum):
    """How to print."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("get")(get)


def get(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(help="nodepool, nodeclass or team; default: all.")] = None,
    name: Annotated[str | None, typer.Argument(help="Name of one object.")] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="What to print.")] = Format.TABLE,
) -> None:
    """Show NodePools, EC2NodeClasses and Teams with their status. Their yaml can be applied again."""
    stack = connection(context)
    wanted = None if kind is None else kind_of(kind)
    objects = attempt(
        lambda: ShowPolicy(stack.policy, stack.reservations, stack.node_claims, stack.clock).show(wanted, name)
    )
    if name is not None and wanted is not None and not objects:
        fail(does_not_exist(stack.policy, wanted, name))
    console = output()
    if form is Format.TABLE:
        for each in PolicyKind:
            rows = [item for item in objects if item["kind"] == each]
            if rows:
                console.print(_TABLES[each](rows))
    else:
        console.print(to_yaml(objects) if form is Format.YAML else to_json(objects), end="")


def _pools(rows: list[dict[str, Any]]) -> Table:
    table = _table("NodePool", "Ready", "Class", "Weight", "Nodes", "Reserved", "Spot", "On-demand")
    for row in rows:
        spec, status = row["spec"], row["status"]
        nodes = status["nodesByCapacityType"]
        counts = [str(nodes.get(kind, 0)) for kind in ("reserved", "spot", "on-demand")]
        class_name = spec["template"]["spec"]["nodeClassRef"]["name"]
        weight = str(spec.get("weight") or 0)
        table.add_row(row["metadata"]["name"], _ready(status), class_name, weight, str(status["nodes"]), *counts)
    return table


def _classes(rows: list[dict[str, Any]]) -> Table:
    table = _table("EC2NodeClass", "Ready", "Reservations", "Units", "Free", "Reserved capacity")
    for row in rows:
        status = row["status"]
        found = status["capacityReservations"]
        units, free = (str(sum(each[name] for each in found)) for name in ("totalInstanceCount", "freeUnits"))
        limit = _condition(status, "CapacityReservation") or "-"
        table.add_row(row["metadata"]["name"], _ready(status), str(len(found)), units, free, limit)
    return table


def _teams(rows: list[dict[str, Any]]) -> Table:
    table = _table("Team", "Ready", "Namespaces", "Principals")
    for row in rows:
        spec = row["spec"]
        principals = str(len(spec.get("principals", []))) if spec.get("principals") else "anybody"
        table.add_row(row["metadata"]["name"], _ready(row["status"]), ", ".join(spec["namespaces"]), principals)
    return table


_TABLES: Final[Mapping[PolicyKind, Callable[[list[dict[str, Any]]], Table]]] = {
    PolicyKind.NODE_CLASS: _classes,
    PolicyKind.NODE_POOL: _pools,
    PolicyKind.TEAM: _teams,
}


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _ready(status: dict[str, Any]) -> str:
    ready = _condition(status, "Ready")
    if ready != "False":
        return ready or "Unknown"
    reason = next(each["message"] for each in status["conditions"] if each["type"] == "Ready")
    return f"False ({reason})"


def _condition(status: dict[str, Any], kind: str) -> str | None:
    return next((each["status"] for each in status["conditions"] if each["type"] == kind), None)
