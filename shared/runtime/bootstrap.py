"""The composition root: use cases with their adapters, made once a process, at the first call."""

import time
from dataclasses import replace
from datetime import datetime
from functools import cache

from shared.core import checker, scheduler
from shared.core.plan import Plan
from shared.core.policy import SchedulingPolicy
from shared.core.snapshot import Snapshot
from shared.ports.messaging import Redelivery
from shared.ports.policy import PolicyKind
from shared.runtime.adapters import Adapters
from shared.runtime.settings import Settings
from shared.usecases.apply_policy import ApplyPolicy
from shared.usecases.block_drains import BlockDrains
from shared.usecases.broken_capacity import BrokenCapacity
from shared.usecases.collect import Collect
from shared.usecases.commit_plan import PlanCommitter
from shared.usecases.deploy_policy import DeployPolicy
from shared.usecases.discover_offerings import DiscoverOfferings
from shared.usecases.discover_on_event import DiscoverOnEvent
from shared.usecases.discover_reservations import DiscoverReservations
from shared.usecases.disrupt import Disrupt
from shared.usecases.drain_deadlines import DrainDeadlines
from shared.usecases.draining import Draining
from shared.usecases.expire import Expire
from shared.usecases.freed_units import FreedUnits
from shared.usecases.gather_snapshot import SnapshotGatherer
from shared.usecases.intake import Intake
from shared.usecases.launch import Launch
from shared.usecases.launch_effects import LaunchEffects
from shared.usecases.launch_gangs import LaunchGangs
from shared.usecases.launch_reactions import LaunchReactions
from shared.usecases.move_units import MoveUnits
from shared.usecases.node_life import NodeLife
from shared.usecases.observe_reservation import ReservationObserver
from shared.usecases.provision import Provision
from shared.usecases.react import React
from shared.usecases.reject_demand import RejectDemand
from shared.usecases.replace_nodes import ReplaceNodes
from shared.usecases.reservation_starts import ReservationStarts
from shared.usecases.resolve_node_classes import NodeClassResolver
from shared.usecases.stored_policy import StoredPolicy
from shared.usecases.workload_status import WorkloadStatus


@cache
def adapters() -> Adapters:
    """Return the process's adapters; raises SettingsError when the environment lacks settings."""
    return Adapters(Settings.from_environment())


@cache
def draining() -> Draining:
    """Return the drain protocol."""
    outside = adapters()
    return Draining(
        claims=outside.node_claims,
        workloads=outside.workloads,
        policy=stored_policy(),
        terminator=outside.instances,
        publisher=outside.publisher,
        queue=outside.queue,
        clock=outside.clock,
    )


@cache
def stored_policy() -> StoredPolicy:
    """Return pools and classes as launches and drains look at them."""
    outside = adapters()
    return StoredPolicy(outside.policy, outside.clock)


@cache
def launch() -> Launch:
    """Return the launch of batches."""
    outside = adapters()
    effects = LaunchEffects(
        claims=outside.node_claims,
        workloads=outside.workloads,
        reservations=outside.reservations,
        offerings=outside.offerings,
        reactions=LaunchReactions(
            reservations=outside.reservations,
            offerings=outside.offerings,
            shortages=outside.shortage_history,
            policy=stored_policy(),
            templates=outside.launch_templates,
            publisher=outside.publisher,
        ),
        gangs=LaunchGangs(outside.node_claims, outside.workloads, outside.instances),
        terminator=outside.instances,
        tagger=outside.instances,
        timers=outside.timers,
        clock=outside.clock,
    )
    return Launch(
        claims=outside.node_claims,
        attempts=outside.launch_attempts,
        reservations=outside.reservations,
        offerings=outside.offerings,
        shortages=outside.shortage_history,
        policy=stored_policy(),
        fleet=outside.fleet,
        templates=outside.launch_templates,
        instances=outside.instances,
        effects=effects,
        queue=outside.queue,
        publisher=outside.publisher,
        clock=outside.clock,
        deployment=outside.settings.deployment,
    )


@cache
def node_life() -> NodeLife:
    """Return what makes claims follow their instances."""
    outside = adapters()
    return NodeLife(
        claims=outside.node_claims,
        reservations=outside.reservations,
        offerings=outside.offerings,
        policy=stored_policy(),
        instances=outside.instances,
        draining=draining(),
        broken=broken_capacity(),
        publisher=outside.publisher,
    )


@cache
def broken_capacity() -> BrokenCapacity:
    """Return what suspects units of Capacity Blocks."""
    outside = adapters()
    return BrokenCapacity(outside.boot_failures, outside.capacity_blocks, outside.reservations, outside.publisher)


@cache
def block_drains() -> BlockDrains:
    """Return the watch over the ends of Capacity Blocks."""
    outside = adapters()
    return BlockDrains(
        claims=outside.node_claims,
        workloads=outside.workloads,
        reservations=outside.reservations,
        reader=outside.reservation_reader,
        timers=outside.timers,
        draining=draining(),
    )


@cache
def react() -> React:
    """Return the reaction to AWS's events."""
    outside = adapters()
    return React(
        claims=outside.node_claims,
        reservations=outside.reservations,
        offerings=outside.offerings,
        instances=outside.instances,
        life=node_life(),
        draining=draining(),
        blocks=block_drains(),
        freed=FreedUnits(
            reader=outside.reservation_reader,
            reservations=outside.reservations,
            observer=ReservationObserver(outside.reservations, outside.node_claims),
            queue=outside.queue,
        ),
        publisher=outside.publisher,
        clock=outside.clock,
        rebalance=outside.settings.rebalance_policy,
        instance_status=outside.settings.instance_status_policy,
    )


@cache
def redelivery() -> Redelivery:
    """Return what brings failed reactions back within seconds."""
    return adapters().reactions


@cache
def expire() -> Expire:
    """Return the minute's sweep."""
    outside = adapters()
    return Expire(
        claims=outside.node_claims,
        policy=stored_policy(),
        instances=outside.instances,
        health=outside.instances,
        life=node_life(),
        draining=draining(),
        blocks=block_drains(),
        deadlines=DrainDeadlines(outside.node_claims, draining(), outside.timers),
        starts=ReservationStarts(
            reservations=outside.reservations,
            reader=outside.reservation_reader,
            observer=ReservationObserver(outside.reservations, outside.node_claims),
            timers=outside.timers,
            queue=outside.queue,
        ),
        broken=broken_capacity(),
        clock=outside.clock,
        instance_status=outside.settings.instance_status_policy,
    )


@cache
def collect() -> Collect:
    """Return the collector."""
    outside = adapters()
    return Collect(
        claims=outside.node_claims,
        workloads=outside.workloads,
        attempts=outside.launch_attempts,
        reservations=outside.reservations,
        policy=stored_policy(),
        instances=outside.instances,
        terminator=outside.instances,
        tagger=outside.instances,
        templates=outside.launch_templates,
        life=node_life(),
        queue=outside.queue,
        clock=outside.clock,
    )


@cache
def snapshot_gatherer() -> SnapshotGatherer:
    """Return the reader of snapshots."""
    outside = adapters()
    return SnapshotGatherer(
        outside.offerings,
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.policy,
        outside.boot_failures,
    )


@cache
def intake() -> Intake:
    """Return the intake."""
    outside = adapters()
    return Intake(outside.workloads, draining().release, outside.queue, outside.clock)


@cache
def rejections() -> RejectDemand:
    """Return the way of messages that cannot be understood."""
    outside = adapters()
    return RejectDemand(outside.dead_letters, outside.publisher)


def node_pool_names() -> frozenset[str]:
    """Return the names of the NodePools that are stored now."""
    return frozenset(item.name for item in adapters().policy.list_all() if item.kind is PolicyKind.NODE_POOL)


@cache
def discover_reservations() -> DiscoverReservations:
    """Return the discovery of reservations."""
    outside = adapters()
    return DiscoverReservations(
        reader=outside.reservation_reader,
        resolver=NodeClassResolver(outside.launch_environment, outside.policy),
        policy=outside.policy,
        reservations=outside.reservations,
        observer=ReservationObserver(outside.reservations, outside.node_claims),
        timers=outside.timers,
        queue=outside.queue,
        publisher=outside.publisher,
        clock=outside.clock,
    )


@cache
def discover_on_event() -> DiscoverOnEvent:
    """Return the discovery of reservations that events wake."""
    outside = adapters()
    return DiscoverOnEvent(discover_reservations(), outside.discovery_turns, outside.clock, pause=time.sleep)


@cache
def discover_offerings() -> DiscoverOfferings:
    """Return the discovery of instance types and prices."""
    outside = adapters()
    return DiscoverOfferings(outside.instance_types, outside.prices, outside.offerings, outside.queue)


def solve(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Solve; improvement ends when the budget is used up, which is real time also where the clock is set."""
    deadline_s = time.monotonic() + adapters().settings.solve_budget.total_seconds()
    return scheduler.solve(snapshot, now=now, policy=replace(policy, expired=lambda: time.monotonic() >= deadline_s))


def check(snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy) -> tuple[checker.Violation, ...]:
    """Check a plan by the rules, independently of the scheduler."""
    return checker.check(snapshot, plan, now=now, policy=policy)


@cache
def provision() -> Provision:
    """Return the planner."""
    outside = adapters()
    return Provision(
        gatherer=snapshot_gatherer(),
        committer=PlanCommitter(outside.node_claims, outside.ids),
        status=WorkloadStatus(outside.workloads, outside.publisher),
        node_claims=outside.node_claims,
        decisions=outside.decisions,
        queue=outside.queue,
        publisher=outside.publisher,
        ids=outside.ids,
        clock=outside.clock,
        # What is bought now is paid for hours: worth the seconds of polish.
        policy=replace(outside.settings.scheduling, with_certificate=True),
        solve=solve,
        check=check,
        shed_surplus=draining().shed_surplus,
    )


@cache
def disrupt() -> Disrupt:
    """Return the pass of voluntary disruption."""
    outside = adapters()
    return Disrupt(
        gatherer=snapshot_gatherer(),
        claims=outside.node_claims,
        replacing=ReplaceNodes(outside.node_claims, draining(), outside.publisher, outside.queue),
        moving=MoveUnits(outside.node_claims, outside.unit_mover, outside.ids),
        decisions=outside.decisions,
        ids=outside.ids,
        clock=outside.clock,
        policy=outside.settings.scheduling,
        solve=solve,
    )


@cache
def deploy_policy() -> DeployPolicy:
    """Return the application of a deployment's manifests folder."""
    outside = adapters()
    return DeployPolicy(ApplyPolicy(outside.policy, outside.publisher, outside.queue), pause=time.sleep)
