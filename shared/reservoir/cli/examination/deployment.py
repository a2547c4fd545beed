"""What the doctor looks at in the deployment itself."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.stack.connection import Connection
from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.disruption.decision_ids import LATEST_DECISION
from reservoir.core.model.capacity_reservation import ACTIVE
from reservoir.core.model.node_class import ValidationOutcome
from reservoir.core.serialisation.json_codec import loads
from reservoir.core.what_if.never_launches import never_launching
from reservoir.manifests.crosscheck import ObjectSet, cross_check
from reservoir.names import VERSION, Queue
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.policy.not_launching import not_launching
from reservoir.usecases.policy.open_doors import open_doors
from reservoir.usecases.policy.policy_objects import Policy, policy_of
from reservoir.usecases.policy.start_readiness import missing_for_starts
from reservoir.usecases.safety.envelope import LiftEnvelope
from reservoir.usecases.safety.tables import OwnTables

_NOT_READ: Final = frozenset({"Disabled", "Disabling"})  # states of an event source mapping


def tables(stack: Connection) -> Iterator[Finding]:
    """Whether the tables are the deployment's own."""
    for problem in (
        OwnTables(stack.outside.table_marks, stack.outside.settings.deployment)
        .recognition()
        .problems
    ):
        yield Finding(
            Severity.ERROR,
            "tables",
            problem,
            "nothing is ended until then: see reservoir tables show",
        )


def envelope(stack: Connection) -> Iterator[Finding]:
    """Whether the safety envelope holds something."""
    for tally in LiftEnvelope(stack.outside.tallies, stack.outside.publisher).show():
        if tally.is_holding(stack.outside.clock.now()):
            message = f"{tally.kind}: more nodes would end than the envelope allows, so none is ended"
            yield Finding(
                Severity.ERROR,
                "envelope",
                message,
                "see reservoir envelope show, and the runbook",
            )


def dead_letters(stack: Connection) -> Iterator[Finding]:
    """Whether messages were given up."""
    for queue in stack.dead_letter_queues.values():
        count = queue.count()
        if count:
            advice = f"see reservoir dlq show {queue.name}"
            yield Finding(
                Severity.WARNING,
                "dead-letters",
                f"{queue.name}: {count} messages failed too often",
                advice,
            )


def policy(stack: Connection) -> Iterator[Finding]:
    """Which classes launch nothing, which pools are paused, and what of it cannot work together."""
    objects = stack.outside.policy.list_all()
    found = policy_of(objects)
    for kind, name in sorted(found.unreadable):
        message = (
            f"{kind}/{name} cannot be read: a newer release wrote it, or it was damaged"
        )
        yield Finding(
            Severity.ERROR, "policy", message, "apply it again, or deploy the newer release"
        )
    for stuck in not_launching(objects):
        if (
            stuck.kind is PolicyKind.NODE_CLASS
            and (stuck.kind, stuck.name) not in found.unreadable
        ):
            message = f"{stuck.kind}/{stuck.name} launches nothing: {stuck.why}"
            yield Finding(
                Severity.ERROR,
                "policy",
                message,
                "fix what it names, then apply the class again",
            )
    yield from _open_to_others(stack, found)
    for each in found.node_classes:
        validation = each.status.validation
        if validation is not None and validation.outcome is ValidationOutcome.REFUSED:
            message = f"EC2NodeClass/{each.name} could not be launched, says a dry run: {validation.message}"
            yield Finding(
                Severity.ERROR,
                "policy",
                message,
                "correct the permission or the class; the dry run is repeated",
            )
    for pool in found.node_pools:
        if pool.paused is not None:
            advice = f"reservoir resume pool {pool.name}"
            yield Finding(
                Severity.HINT,
                "policy",
                f"NodePool/{pool.name} is paused {pool.paused}",
                advice,
            )
    together = ObjectSet(
        found.node_pools,
        found.node_classes,
        teams=found.teams,
        limits=stack.outside.settings.launch_limits,
    )
    for doubt in cross_check(together):
        advice = (
            f"did you mean {doubt.suggestion}?"
            if doubt.suggestion
            else f"rule {doubt.rule} in docs/manifests.md"
        )
        yield Finding(
            Severity.WARNING,
            "policy",
            f"{doubt.kind}/{doubt.name}: {doubt.message}",
            advice,
        )


def _open_to_others(stack: Connection, found: Policy) -> Iterator[Finding]:
    """Whether others are let in than most deployments mean; Teams that cannot be read may say otherwise."""
    if found.unreadable:
        return
    outside = stack.outside
    keys = {*outside.workloads.placed_revisions(), *outside.demand_census.waiting_keys()}
    asked = stack.client("sqs").get_queue_attributes(
        QueueUrl=outside.settings.queue_urls[Queue.DEMAND], AttributeNames=["Policy"]
    )
    for door in open_doors(
        found.teams,
        {key.partition("/")[0] for key in keys},
        stack.caller().split(":")[4],
        asked.get("Attributes", {}).get("Policy"),
    ):
        yield Finding(Severity.WARNING, "policy", door.message, door.advice)


def pools(stack: Connection) -> Iterator[Finding]:
    """Which pools can never launch, whatever is free, and why."""
    for pool in never_launching(stack.snapshots.gather(stack.outside.clock.now()).snapshot):
        message = f"NodePool/{pool.node_pool_name} can never launch anything: {pool.reason}"
        yield Finding(
            Severity.ERROR,
            "pools",
            message,
            "fix the pool or its class, then apply it again",
        )
    yield from _unjudged(stack)


def _unjudged(stack: Connection) -> Iterator[Finding]:
    """Whether disruption comes to look at every node within an hour."""
    found = stack.outside.decisions.load(LATEST_DECISION)
    if found is None:
        return
    decision = loads(DisruptionDecision, found[0].plan_json)
    count = decision.unjudged_for_an_hour(stack.outside.clock.now())
    if count:
        waiting = "1 node waits" if count == 1 else f"{count} nodes wait"
        them = "it" if count == 1 else "them"
        message = f"{waiting} for more than an hour until disruption looks at {them}"
        advice = "they may cost more than need be meanwhile: docs/disruption.md says how many a pass looks at"
        yield Finding(Severity.WARNING, "pools", message, advice)


def reservations(stack: Connection) -> Iterator[Finding]:
    """Which reservations nothing selects, and which facts are old."""
    classes = policy_of(stack.outside.policy.list_all()).node_classes
    selected = set(chain.from_iterable(each.status.reservation_ids for each in classes))
    for record in stack.outside.reservations.list_current():
        found = record.reservation
        if found.stale:
            message = f"{found.id} could not be read again: what is known of it is stale"
            yield Finding(
                Severity.WARNING,
                "reservations",
                message,
                "read the log of discover_reservations",
            )
        if found.state == ACTIVE and found.id not in selected:
            message = f"no EC2NodeClass selects {found.id}: {found.total_count} x {found.instance_type}"
            advice = "select it by its tags or id in capacityReservationSelectorTerms, or cancel it"
            yield Finding(Severity.WARNING, "reservations", message, advice)


def starts(stack: Connection) -> Iterator[Finding]:
    """Whether reservations that begin within a day could be launched into."""
    known = [each.reservation for each in stack.outside.reservations.list_current()]
    found = missing_for_starts(
        known,
        stack.outside.policy.list_all(),
        stack.outside.offerings,
        stack.outside.clock.now(),
    )
    for reservation, problems in found.values():
        for each in problems:
            message = f"{reservation.id} begins at {reservation.start_at:%Y-%m-%d %H:%M} UTC: {each.message}"
            yield Finding(Severity.ERROR, "starts", message, each.advice)


def alarms(stack: Connection) -> Iterator[Finding]:
    """Which alarms are in alarm, and which notify no one."""
    pages = (
        stack.client("cloudwatch")
        .get_paginator("describe_alarms")
        .paginate(AlarmNamePrefix=stack.outside.settings.deployment)
    )
    found = list(pages.search("MetricAlarms[]"))
    for alarm in found:
        if alarm["StateValue"] == "ALARM":
            message = (
                f"{alarm['AlarmName']} has gone off: {alarm.get('AlarmDescription', '')}"
            )
            yield Finding(Severity.ERROR, "alarms", message, "see the runbook")
    silent = sum(not alarm.get("AlarmActions") for alarm in found)
    if silent:
        advice = "set alarmTopic in the deployment's settings"
        yield Finding(
            Severity.WARNING,
            "alarms",
            f"{silent} of {len(found)} alarms notify nobody",
            advice,
        )


def schedules(stack: Connection) -> Iterator[Finding]:
    """Which of the deployment's rules are switched off."""
    pages = (
        stack.client("events")
        .get_paginator("list_rules")
        .paginate(NamePrefix=stack.outside.settings.deployment)
    )
    for rule in pages.search("Rules[]"):
        if rule["State"] == "DISABLED":
            advice = f"aws events enable-rule --name {rule['Name']}"
            yield Finding(
                Severity.ERROR, "schedules", f"{rule['Name']} is disabled", advice
            )


def queues(stack: Connection) -> Iterator[Finding]:
    """Which queues no function works off."""
    pages = stack.client("lambda").get_paginator("list_event_source_mappings").paginate()
    for mapping in pages.search("EventSourceMappings[]"):
        function = mapping["FunctionArn"].rpartition(":")[2]
        if (
            function.startswith(f"{stack.outside.settings.deployment}-")
            and mapping["State"] in _NOT_READ
        ):
            queue = mapping["EventSourceArn"].rpartition(":")[2]
            message = (
                f"{function} does not read {queue}: its event source mapping is disabled"
            )
            advice = (
                f"aws lambda update-event-source-mapping --enabled --uuid {mapping['UUID']}"
            )
            yield Finding(Severity.ERROR, "queues", message, advice)


def versions(stack: Connection) -> Iterator[Finding]:
    """Whether the stack is of this command's release."""
    if stack.release != VERSION:
        deployed = (
            "of an older release" if stack.release is None else f"release {stack.release}"
        )
        install = (
            "" if stack.release is None else f", or pip install reservoir=={stack.release}"
        )
        message = f"this command is release {VERSION}, the stack is {deployed}"
        yield Finding(
            Severity.WARNING, "versions", message, f"deploy release {VERSION}{install}"
        )
