"""``make destroy``: no instance goes on running when nothing is left that would end it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from reservoir.cli.deployment.account import Account, FoundStack
from reservoir.cli.deployment.cdk import Cdk
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import NodeClaim, placed_keys
from reservoir.deployment.deployment import Deployment, table_field
from reservoir.manifests.messages import WithdrawMessage, WorkloadReference
from reservoir.manifests.parsing.metadata import WorkloadMetadata
from reservoir.names import (
    EVENT_BUS,
    HISTORY_RULE_SUFFIX,
    SNAPSHOTS_BUCKET,
    Table,
    output_name,
)
from reservoir.ports.ec2 import LaunchTemplateStore
from reservoir.ports.state import NodeClaimStore, WorkloadRecord, WorkloadStore

Report = Callable[[str], None]

_LOOK_AGAIN_S: Final = 15.0
# Work that is withdrawn has an hour at most, and what began to drain before, the longest notice; then an hour in which
# the safety envelope lets more of them go.
_NOTHING_GOES_LOOKS_MAX: Final = 4 * 60 * 4
_DELETE_MAX: Final = 1000  # objects in one call to S3


class DestroyRefusedError(Exception):
    """A condition for deleting is not met; nothing was deleted."""


class OwnedInstances(Protocol):
    """Our instances, as EC2 has them."""

    def list_owned(self) -> tuple[Instance, ...]:
        """Return all that have not terminated."""
        ...


@dataclass(frozen=True, slots=True)
class Fleet:
    """The instances of a stack, and how their workloads are notified."""

    instances: OwnedInstances
    templates: LaunchTemplateStore
    node_claims: NodeClaimStore
    workloads: WorkloadStore
    # False: it changed meanwhile, so that it is to be asked for again
    withdraw: Callable[[WithdrawMessage], bool]


@dataclass(frozen=True, slots=True)
class Destroy:
    """Deletes one deployment's stack."""

    deployment: Deployment
    account: Account
    connect: Callable[[FoundStack], Fleet]
    cdk: Cdk
    report: Report
    sleep: Callable[[float], None]  # seconds

    def check(self, *, drain: bool) -> FoundStack:
        """Return the stack when it may be deleted.

        Raises
        ------
        DestroyRefusedError
            There is no such stack, it is protected, or instances run and are not to be drained.
        """
        name, stack = self.deployment.name, self.deployment.stack
        found = next((it for it in self.account.stacks() if it.name == stack), None)
        if found is None:
            raise DestroyRefusedError(f"there is no stack {stack} in {self.account.region}")
        if self.deployment.settings.termination_protection:
            raise DestroyRefusedError(
                f"{name} is protected: set terminationProtection: false in {self.deployment.path} first"
            )
        if not found.is_half_deleted:
            self._refuse_listeners(found)
        running = self.connect(found).instances.list_owned()
        if running and (found.is_half_deleted or not drain):
            listed = ", ".join(instance.id for instance in running[:10]) + (
                ", …" if len(running) > 10 else ""
            )
            advice = (
                "The functions that would drain them are deleted already: terminate them yourself"
                if found.is_half_deleted
                else "Withdraw the workloads and wait, or let this do it: make destroy ARGS=--drain"
            )
            raise DestroyRefusedError(
                f"{len(running)} instances of {name} run, and without the stack nothing would end them: {listed}."
                f" {advice}"
            )
        return found

    def _refuse_listeners(self, found: FoundStack) -> None:
        """Refuse while rules of others hear events of a bus that would be gone."""
        bus = found.outputs[output_name(EVENT_BUS)]
        rules = self.account.clients("events").list_rules(EventBusName=bus)["Rules"]
        if theirs := [
            rule["Name"]
            for rule in rules
            if rule["Name"] != f"{found.name}{HISTORY_RULE_SUFFIX}"
        ]:
            listed = ", ".join(theirs)
            raise DestroyRefusedError(
                f"rules of yours listen on the bus {bus}: {listed}. Delete them first"
            )

    def run(self, stack: FoundStack) -> None:
        """Drain what runs, then delete what the stack's functions made, then the stack.

        Of a deletion that failed before, what is left is deleted: nothing runs then.

        Raises
        ------
        CdkError
            The CDK's command line failed.
        DestroyRefusedError
            Instances run that do not go. The stack stays as it is, so that it can end them yet.
        """
        fleet = self.connect(stack)
        if not stack.is_half_deleted:
            self._drain(fleet)
        templates = [template.name for template in fleet.templates.list_owned()]
        fleet.templates.delete(templates)
        self.report(f"deleted {len(templates)} launch templates")
        if not self.deployment.settings.retain:
            empty_bucket(
                self.account.clients("s3"), stack.outputs[output_name(SNAPSHOTS_BUCKET)]
            )
        self.account.clients("cloudformation").update_termination_protection(
            StackName=stack.name, EnableTerminationProtection=False
        )
        self.cdk("destroy", "--force")
        if left := fleet.instances.list_owned():
            listed = ", ".join(instance.id for instance in left)
            self.report(f"launched meanwhile; you must terminate them yourself: {listed}")
        if self.deployment.settings.retain:
            self.report(
                "kept, with the bucket, the demand queue and the logs; to reuse them, name them in the settings file:"
            )
            self.report("tables:")
            for table in Table:
                self.report(f"  {table_field(table)}: {stack.outputs[output_name(table)]}")

    def _drain(self, fleet: Fleet) -> None:
        """Withdraw every workload, also those that arrive meanwhile, until nothing runs: nodes end with notice."""
        before: int | None = None
        looks = 0
        while True:
            live = fleet.node_claims.list_live()
            keys = placed_keys(live)
            keys |= {record.key for record in fleet.workloads.list_needing_planning()}
            for record in fleet.workloads.get_many(keys).values() if keys else ():
                if not record.withdrawn and fleet.withdraw(withdrawal(record)):
                    self.report(f"withdrawing {record.key}")
            count = len(fleet.instances.list_owned())
            # nor is about to run
            if count == 0 and not any(claim.instance_id is None for claim in live):
                return
            if count != before:
                self.report(
                    f"waiting for {count} instances to terminate; workloads get their notice"
                )
                looks = 0
            looks += 1
            if looks > _NOTHING_GOES_LOOKS_MAX:
                raise DestroyRefusedError(_stuck(live, count))
            before = count
            self.sleep(_LOOK_AGAIN_S)


def _stuck(live: Sequence[NodeClaim], count: int) -> str:
    """Return which nodes do not end, and the deadlines of those that drain."""
    known = [
        f"{claim.instance_id} ({claim.state.value}"
        + (
            f" until {claim.drain.deadline:%Y-%m-%d %H:%M} UTC)"
            if claim.drain is not None
            else ")"
        )
        for claim in live
        if claim.instance_id is not None
    ]
    listed = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    return (
        f"{count} instances have not ended for hours: {listed or 'they have no claim'}. `reservoir explain node NAME`"
        " says why, `reservoir drain node NAME --deadline 0s` ends one; then repeat this"
    )


def withdrawal(record: WorkloadRecord) -> WithdrawMessage:
    """Return the message that withdraws a workload."""
    namespace, _, name = record.key.partition("/")
    metadata = WorkloadMetadata.model_validate(
        {"name": name, "namespace": namespace, "generation": record.generation}
    )
    return WithdrawMessage(
        action="withdraw", workload=WorkloadReference(metadata=metadata, status=None)
    )


def empty_bucket(s3: Any, bucket: str) -> None:
    """Delete all objects, if the bucket is still there: CloudFormation deletes none that holds some."""
    pages = s3.get_paginator("list_objects_v2")
    try:
        for page in pages.paginate(
            Bucket=bucket, PaginationConfig={"PageSize": _DELETE_MAX}
        ):
            keys = [{"Key": each["Key"]} for each in page.get("Contents", ())]
            if keys:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
    except s3.exceptions.NoSuchBucket:
        return
