"""``reservoir explain node`` and ``reservoir explain workload``."""

import json
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from reservoir.console import add_group, fail, output
from reservoir.policy import attempt, connection
from shared.core.scheduling_terms.money import usd
from shared.manifests.explanations import AlternativePlace, DecisionAlternatives, NodeExplanation, WorkloadExplanation
from shared.usecases.explaining.explain_node import ExplainNode
from shared.usecases.explaining.explain_workload import ExplainWorkload
from shared.usecases.what_if.explain_alternatives import ExplainAlternatives
from shared.usecases.what_if.replay import ReplayError

_DEFAULT_NAMESPACE = "default"


class Format(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="What to print.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(app, "explain", "Say why a node exists or stays, or why a workload waits.", node, workload)


def node(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="NodeClaim id or EC2 instance id.")],
    form: Output = Format.TEXT,
) -> None:
    """Say why a node exists, what disruption last decided about it, and why."""
    stack = connection(context)
    found = attempt(lambda: ExplainNode(stack.node_claims, stack.decisions).explain(name))
    if found is None:
        fail(f"node {name} is not known (nodes that ended are forgotten after a week)")
    _print(found, _node_lines(found), form)


def workload(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="NAMESPACE/NAME, or NAME in the namespace default.")],
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Say too what the next best places would have cost.")
    ] = False,
    form: Output = Format.TEXT,
) -> None:
    """Say where a workload's replicas are, why the others wait, and when that could change by itself."""
    stack = connection(context)
    key = name if "/" in name else f"{_DEFAULT_NAMESPACE}/{name}"
    found = attempt(lambda: ExplainWorkload(stack.workloads, stack.node_claims).explain(key))
    if found is None:
        fail(f"workload {key} is not known")
    if alternatives:
        question = ExplainAlternatives(stack.node_claims, stack.decisions, stack.solver.policy)
        try:
            found = found.model_copy(update={"alternatives": attempt(lambda: question.explain(key))})
        except ReplayError as error:
            fail(str(error))
    _print(found, _workload_lines(found), form)


def _print(found: NodeExplanation | WorkloadExplanation, lines: Iterator[str], form: Format) -> None:
    console = output()
    if form is Format.JSON:
        console.print(json.dumps(found.model_dump(mode="json", exclude_none=True), indent=2))
        return
    for line in lines:
        console.print(line)


def _node_lines(found: NodeExplanation) -> Iterator[str]:
    node, origin, standing = found.node, found.origin, found.disruption
    instance = f" ({node.instance_id})" if node.instance_id else ""
    yield f"{node.node_claim}{instance}: {node.instance_type} {node.capacity_type.value} in {node.zone}, {found.state}"
    held = ", ".join(f"{each.namespace}/{each.name} x{each.replicas}" for each in found.workloads)
    yield f"  holds       {held or 'nothing'}"
    yield f"  exists      {origin.text}{_by(origin.decision_id, origin.decided_at)}"
    for relaxed in origin.relaxed:
        yield f"              gave up: {relaxed}"
    if found.failure:
        yield f"  failed      {found.failure}"
    yield f"  disruption  {standing.status}: {standing.text}{_by(standing.decision_id, standing.decided_at)}"
    if standing.replaced_by:
        yield f"              replaced by {', '.join(standing.replaced_by)}"
    if standing.deadline:
        yield f"              drains until {_time(standing.deadline)}"


def _workload_lines(found: WorkloadExplanation) -> Iterator[str]:
    ref = found.workload
    ended = ", withdrawn" if found.withdrawn else ""
    wanted = f"{found.replicas} wanted, {found.placed} placed, {found.pending} waiting"
    wanted += f", {found.finished} finished" if found.finished else ""
    yield f"{ref.namespace}/{ref.name} (generation {ref.generation}): {wanted}{ended}"
    if found.pending_since:
        yield f"  waits       since {_time(found.pending_since)}"
    for each in found.waiting:
        yield f"  {each.replicas:>4} x      {each.reason.value}: {each.message}"
        if each.nearest_offering:
            near = each.nearest_offering
            where = f" ({near.capacity_reservation_id})" if near.capacity_reservation_id else ""
            yield f"              nearest: {near.instance_type} {near.capacity_type.value} in {near.zone}{where}"
    if found.pending:
        when = _time(found.next_feasible_at) if found.next_feasible_at else "not by itself: by new capacity or policy"
        yield f"  could run   {when}"
    for host in found.nodes:
        instance = host.instance_id or "no instance yet"
        yield f"  on          {host.node_claim} ({instance}), {host.state}: x{host.replicas}"
    yield from _alternative_lines(found.alternatives)


def _alternative_lines(found: list[DecisionAlternatives] | None) -> Iterator[str]:
    if found is None:
        return
    if not found:
        yield "  instead     no plan that is kept made a node for it; reservoir plan tells what it would get now"
    for decision in found:
        yield f"  instead     as {decision.plan_id} at {_time(decision.made_at)} saw it:"
        for place in decision.places:
            offering = place.offering
            where = f" ({offering.capacity_reservation_id})" if offering.capacity_reservation_id else ""
            told = f"{offering.instance_type} {offering.capacity_type.value} in {offering.zone}{where}"
            yield f"              {told}, pool {place.node_pool}: {_verdict(place)}"


def _verdict(place: AlternativePlace) -> str:
    if place.chosen:
        return f"chosen, {place.chosen} x"
    return f"{_cost(place)}{place.reason}"


def _cost(place: AlternativePlace) -> str:
    """Return what it takes to hold the whole workload there."""
    if place.price_micro_usd_per_hour is None:
        return ""
    if place.offering.capacity_reservation_id is not None:
        return f"{place.nodes} x paid for; "
    return f"{place.nodes} x, {usd(place.price_micro_usd_per_hour)} an hour; "


def _by(decision_id: str | None, decided_at: datetime | None) -> str:
    if decision_id is None:
        return ""
    return f" ({decision_id}{f' at {_time(decided_at)}' if decided_at else ''})"


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
