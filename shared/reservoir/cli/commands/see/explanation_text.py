"""Explanations as lines for people."""

from collections.abc import Iterator
from datetime import datetime

from reservoir.core.scheduling_terms.money import usd
from reservoir.manifests.answers.explanations import (
    AlternativePlace,
    DecisionAlternatives,
    NodeExplanation,
    StartEstimate,
    WorkloadExplanation,
)


def node_lines(found: NodeExplanation) -> Iterator[str]:
    """Say why a node exists, and what disruption thinks of it."""
    node, origin, standing = found.node, found.origin, found.disruption
    instance = f" ({node.instance_id})" if node.instance_id else ""
    yield f"{node.node_claim}{instance}: {node.instance_type} {node.capacity_type.value} in {node.zone}, {found.state}"
    held = ", ".join(
        f"{each.namespace}/{each.name} x{each.replicas}" for each in found.workloads
    )
    yield f"  holds       {held or 'nothing'}"
    yield f"  exists      {origin.text}{_by(origin.decision_id, origin.decided_at)}"
    for relaxed in origin.relaxed:
        yield f"              gave up: {relaxed}"
    if found.failure:
        yield f"  failed      {found.failure}"
    yield f"  disruption  {standing.status}: {standing.text}{_by(standing.decision_id, standing.decided_at)}"
    if standing.replaced_by:
        yield f"              replaced by {', '.join(standing.replaced_by)}"
    if standing.deadline and standing.status != "gone":
        yield f"              drains until {_time(standing.deadline)}"


def workload_lines(found: WorkloadExplanation) -> Iterator[str]:
    """Say where a workload's replicas are, and why the others wait."""
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
            where = (
                f" ({near.capacity_reservation_id})" if near.capacity_reservation_id else ""
            )
            yield f"              nearest: {near.instance_type} {near.capacity_type.value} in {near.zone}{where}"
    if found.pending:
        when = (
            _time(found.next_feasible_at)
            if found.next_feasible_at
            else "not by itself: by new capacity or policy"
        )
        yield f"  could run   {when}"
        yield from _start_lines(found.starts)
    if found.rollout:
        surge = f", up to {found.rollout.surge} beyond" if found.rollout.surge else ""
        yield f"  update      replaces running replicas{surge}; waits for {found.rollout.waits_for}"
    if found.off_spot:
        rest = found.off_spot
        yield f"  off spot    until {_time(rest.until)}: {rest.reason} (left {rest.times} times in a row)"
    for host in found.nodes:
        instance = host.instance_id or "no instance yet"
        yield f"  on          {host.node_claim} ({instance}), {host.state}: x{host.replicas}"
        if host.held:
            waits_for = ", ".join(host.predecessors)
            yield f"  held        x{host.held} until they have left {waits_for}"
        if host.drain_at is not None and host.goes_on is not None:
            yield f"  then        its block drains at {host.drain_at:%Y-%m-%d %H:%MZ}: {host.goes_on}"
    yield from _alternative_lines(found.alternatives)


def _start_lines(starts: StartEstimate | None) -> Iterator[str]:
    if starts is not None:
        p50, p90 = _time(starts.p50_at), _time(starts.p90_at)
        yield f"  starts      about {p50}, nine times in ten by {p90}"


def _alternative_lines(found: list[DecisionAlternatives] | None) -> Iterator[str]:
    if found is None:
        return
    if not found:
        yield "  instead     no stored plan launched a node for it; reservoir plan shows what it would get now"
    for decision in found:
        yield f"  instead     as {decision.plan_id} at {_time(decision.made_at)} saw it:"
        for place in decision.places:
            offering = place.offering
            where = (
                f" ({offering.capacity_reservation_id})"
                if offering.capacity_reservation_id
                else ""
            )
            told = f"{offering.instance_type} {offering.capacity_type.value} in {offering.zone}{where}"
            yield f"              {told}, pool {place.node_pool}: {_verdict(place)}"


def _verdict(place: AlternativePlace) -> str:
    if place.chosen:
        return f"chosen, {place.chosen} x"
    return f"{_cost(place)}{place.reason}"


def _cost(place: AlternativePlace) -> str:
    """Return the cost of holding the whole workload there."""
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
