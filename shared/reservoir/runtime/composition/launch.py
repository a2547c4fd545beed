"""The launch function."""

from collections.abc import Mapping

from reservoir.core.launching.user_data import NODE_CLAIMS_TABLE, REPORTS_QUEUE_URL
from reservoir.names import Queue, Table
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.launching.apply_outcome import ApplyOutcome
from reservoir.usecases.launching.gangs import LaunchGangs
from reservoir.usecases.launching.launch import Launch
from reservoir.usecases.launching.launch_reader import LaunchReader
from reservoir.usecases.launching.record_shortages import RecordShortages
from reservoir.usecases.launching.validate_class import ValidateClass


@once
def launch() -> Launch:
    """Return the launch of batches."""
    return launch_from(process_outside())


def launch_from(outside: Outside) -> Launch:
    """Wire the launch of batches."""
    outcomes = ApplyOutcome(
        claims=outside.node_claims,
        workloads=outside.workloads,
        reservations=outside.reservations,
        offerings=outside.offerings,
        recorder=RecordShortages(
            reservations=outside.reservations,
            offerings=outside.offerings,
            shortages=outside.shortage_history,
            policy=outside.launch_policy,
            templates=outside.launch_templates,
            publisher=outside.publisher,
        ),
        gangs=LaunchGangs(outside.node_claims, outside.workloads, outside.instances),
        terminator=outside.instances,
        tagger=outside.instances,
        timers=outside.timers,
        clock=outside.clock,
        longest_notice=outside.settings.longest_notice,
    )
    return Launch(
        claims=outside.node_claims,
        attempts=outside.launch_attempts,
        reader=LaunchReader(
            outside.launch_policy,
            outside.reservations,
            outside.offerings,
            outside.executor,
            for_user_data=_for_user_data(outside),
            tags=outside.settings.launch_tags,
        ),
        shortages=outside.shortage_history,
        policy=outside.launch_policy,
        fleet=outside.fleet,
        templates=outside.launch_templates,
        instances=outside.instances,
        outcomes=outcomes,
        queue=outside.queue,
        publisher=outside.publisher,
        clock=outside.clock,
        executor=outside.executor,
        deployment=outside.settings.deployment,
    )


@once
def validate_class() -> ValidateClass:
    """Return the dry run of classes."""
    return validate_class_from(process_outside())


def validate_class_from(outside: Outside) -> ValidateClass:
    """Wire the dry run of classes."""
    return ValidateClass(
        policy=outside.launch_policy,
        offerings=outside.offerings,
        reservations=outside.reservations,
        templates=outside.launch_templates,
        dry_runs=outside.dry_runs,
        clock=outside.clock,
        deployment=outside.settings.deployment,
        for_user_data=_for_user_data(outside),
        tags=outside.settings.launch_tags,
    )


def _for_user_data(outside: Outside) -> Mapping[str, str]:
    """Return the names of the deployment that user data may ask for, by placeholder."""
    return {
        NODE_CLAIMS_TABLE: outside.settings.tables[Table.NODE_CLAIMS],
        REPORTS_QUEUE_URL: outside.settings.queue_urls[Queue.REPORTS],
    }
