"""What the account already holds of a deployment: stacks, tables, instances."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError, WaiterError

from reservoir import names
from reservoir.names import Table, output_name

Clients = Callable[[str], Any]  # a boto3 client for a service's name

SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
# A change set that was never executed, or a first create that failed: nothing of it works, and it is created again.
_NEVER_CREATED: Final = frozenset(
    {"CREATE_FAILED", "REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}
)
_DELETE_FAILED: Final = "DELETE_FAILED"
# The CDK deletes the others itself before it creates a stack again.
_LEFT_BY_CDK: Final = frozenset({"CREATE_FAILED", _DELETE_FAILED})
_COMPLETE: Final = frozenset({"CREATE_COMPLETE", "IMPORT_COMPLETE"})
_DELETE_LOOKS: Final = {"Delay": 5, "MaxAttempts": 360}  # half an hour
_KEPT: Final = "DELETE_SKIPPED"  # of a resource that CloudFormation kept
_NOT_FOUND: Final = "ResourceNotFoundException"
REFUSED: Final = frozenset({"AccessDenied", "AccessDeniedException"})


# States from which CloudFormation updates.
_AT_REST: Final = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
    }
)
_CONTINUED_BY_CDK: Final = frozenset({"UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED"})


class LeftoversError(Exception):
    """What an earlier attempt made cannot be deleted."""


@dataclass(frozen=True, slots=True)
class FoundStack:
    """A stack that exists."""

    name: str
    status: str
    outputs: Mapping[str, str]
    tables: Mapping[Table, str]

    @property
    def deployment(self) -> str | None:
        """The name of its deployment; None before the first deployment with a settings file."""
        return self.outputs.get(names.DEPLOYMENT_NAME_OUTPUT)

    @property
    def hindrance(self) -> tuple[str, str] | None:
        """Why CloudFormation does not update it, and what to do; None where it does."""
        if self.status in _AT_REST:
            return None
        why = (
            f"the stack {self.name} is {self.status}, which CloudFormation does not update"
        )
        if self.status.endswith("_IN_PROGRESS"):
            return why, "wait until it is over"
        if self.is_half_deleted:
            return why, "correct what its events name, and run make destroy again"
        return why, "aws cloudformation continue-update-rollback, after its events' reason"

    @property
    def is_half_deleted(self) -> bool:
        """Whether a deletion was begun and failed."""
        return self.status == _DELETE_FAILED

    @property
    def is_continued_by_cdk(self) -> bool:
        """Whether the CDK's command line offers to roll back what hinders it."""
        return self.status in _CONTINUED_BY_CDK


@dataclass(frozen=True, slots=True)
class Account:
    """One region of an account, as far as deployments matter."""

    clients: Clients

    def id(self) -> str:
        """Return the account that the credentials belong to."""
        return str(self.clients("sts").get_caller_identity()["Account"])

    @property
    def region(self) -> str:
        """The region."""
        return str(self.clients("sts").meta.region_name)

    def stacks(self) -> list[FoundStack]:
        """Return the stacks that exist, from any tool, except those that were never complete."""
        return [
            _found(stack)
            for stack in self._described_stacks()
            if stack["StackStatus"] != "DELETE_COMPLETE" and not self._has_failed(stack)
        ]

    def _described_stacks(self) -> Iterator[Mapping[str, Any]]:
        for page in (
            self.clients("cloudformation").get_paginator("describe_stacks").paginate()
        ):
            yield from page["Stacks"]

    def _has_failed(self, stack: Mapping[str, Any]) -> bool:
        """Return whether the creation of a stack failed, also if its resources could not be deleted again."""
        if stack["StackStatus"] == _DELETE_FAILED:
            return not self._was_complete(stack["StackId"])
        return stack["StackStatus"] in _NEVER_CREATED

    def _was_complete(self, stack_id: str) -> bool:
        paginator = self.clients("cloudformation").get_paginator("describe_stack_events")
        for page in paginator.paginate(StackName=stack_id):
            for event in page["StackEvents"]:
                is_of_stack = event["PhysicalResourceId"] == stack_id
                if is_of_stack and event["ResourceStatus"] in _COMPLETE:
                    return True
        return False

    def _failed(self, name: str) -> Mapping[str, Any] | None:
        """Return the stack of this name whose create failed, if there is one."""
        return next(
            (
                stack
                for stack in self._described_stacks()
                if stack["StackName"] == name and self._has_failed(stack)
            ),
            None,
        )

    def is_left(self, name: str) -> bool:
        """Return whether there is a stack of this name whose create failed."""
        return self._failed(name) is not None

    def clear_failed(self, name: str) -> None:
        """Make room for a stack of this name where an earlier create failed.

        Earlier releases protected it from deletion, and so does a `cdk deploy` without `make deploy`.

        Raises
        ------
        LeftoversError
            What it had made cannot be deleted.
        """
        failed = self._failed(name)
        if failed is None:
            return
        client, stack_id = self.clients("cloudformation"), failed["StackId"]
        if failed.get("EnableTerminationProtection", False):
            client.update_termination_protection(
                StackName=stack_id, EnableTerminationProtection=False
            )
        if failed["StackStatus"] not in _LEFT_BY_CDK:
            return
        client.delete_stack(StackName=stack_id)
        try:
            client.get_waiter("stack_delete_complete").wait(
                StackName=stack_id, WaiterConfig=_DELETE_LOOKS
            )
        except WaiterError as error:
            (stack,) = client.describe_stacks(StackName=stack_id)["Stacks"]
            why = stack.get("StackStatusReason", stack["StackStatus"])
            raise LeftoversError(
                f"{name} was never complete, and what there is of it cannot be deleted: {why}"
            ) from error

    def _tables_of_failed(self, name: str) -> frozenset[str]:
        """Return the tables that a create which failed could not delete again: they go with its stack."""
        return frozenset(
            resource["PhysicalResourceId"]
            for resource in self._resources_of_failed(name)
            if resource["ResourceType"] == "AWS::DynamoDB::Table"
        )

    def _resources_of_failed(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Yield what was made of the stack whose create failed, if there is one."""
        if self._failed(name) is None:
            return
        paginator = self.clients("cloudformation").get_paginator("list_stack_resources")
        for page in paginator.paginate(StackName=name):
            for resource in page["StackResourceSummaries"]:
                if "PhysicalResourceId" in resource:
                    yield resource

    def make_spot_role(self) -> bool:
        """Make the service-linked role of Spot; return whether it was missing.

        No resource of the stack: a second deployment in the account could not make it, and the first would take it
        from everybody when it goes.
        """
        client = self.clients("iam")
        try:
            client.get_role(RoleName=SPOT_ROLE)
        except client.exceptions.NoSuchEntityException:
            client.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
            return True
        return False

    def left_timers(self, stack: str) -> str | None:
        """Return the schedule group that an earlier stack of this name left: releases up to 0.2.0 kept it.

        A caller who may not look finds none.
        """
        name, client = names.timers_group(stack), self.clients("scheduler")
        try:
            client.get_schedule_group(Name=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in (_NOT_FOUND, *REFUSED):
                return None
            raise
        return None if name in self._groups_of_failed(stack) else name

    def _groups_of_failed(self, name: str) -> frozenset[str]:
        """Return the schedule groups that go with the stack whose create failed."""
        return frozenset(
            resource["PhysicalResourceId"]
            for resource in self._resources_of_failed(name)
            if resource["ResourceType"] == "AWS::Scheduler::ScheduleGroup"
            and resource["ResourceStatus"] != _KEPT
        )

    def left_tables(self, stack: str) -> dict[Table, list[str]]:
        """Return the tables that stacks of this name have made, but for one whose create failed."""
        found: dict[Table, list[str]] = {}
        of_failed = self._tables_of_failed(stack)
        made = [name for name in self._table_names() if name not in of_failed]
        for table in Table:
            prefix = f"{stack}-State{output_name(table.name)}"
            named = sorted(name for name in made if name.startswith(prefix))
            if named:
                found[table] = named
        return found

    def _table_names(self) -> Iterator[str]:
        for page in self.clients("dynamodb").get_paginator("list_tables").paginate():
            yield from page["TableNames"]

    def has_table(self, name: str) -> bool:
        """Return whether a table exists."""
        return self._described(name) is not None

    def _described(self, name: str) -> Mapping[str, Any] | None:
        client = self.clients("dynamodb")
        try:
            described: Mapping[str, Any] = client.describe_table(TableName=name)["Table"]
        except client.exceptions.ResourceNotFoundException:
            return None
        return described

    def flaws_of(self, table: Table, name: str) -> list[str]:
        """Say what a table lacks to serve as this one; nothing when it is fit."""
        client, found = self.clients("dynamodb"), self._described(name)
        if found is None:
            return ["does not exist"]
        flaws = []
        if found["TableStatus"] != "ACTIVE":
            flaws.append(f"is {found['TableStatus']}")
        if [part["AttributeName"] for part in found["KeySchema"]] != [
            *names.key_attributes(table)
        ]:
            flaws.append(
                f"has another key than {' and '.join(names.key_attributes(table))}"
            )
        flaws += [f"lacks the index {index}" for index in _missing_indexes(table, found)]
        if not found.get("DeletionProtectionEnabled", False):
            flaws.append("is not protected from deletion")
        ttl = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        if ttl.get("AttributeName") != names.TTL_ATTRIBUTE:
            flaws.append(f"does not expire rows by {names.TTL_ATTRIBUTE}")
        backups = client.describe_continuous_backups(TableName=name)[
            "ContinuousBackupsDescription"
        ]
        if (
            backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
            != "ENABLED"
        ):
            flaws.append("has no point-in-time recovery")
        return flaws


def _missing_indexes(table: Table, found: Mapping[str, Any]) -> list[str]:
    indexes = {index["IndexName"] for index in found.get("GlobalSecondaryIndexes", ())}
    return [index for index in names.indexes(table) if index not in indexes]


def _found(stack: Mapping[str, Any]) -> FoundStack:
    outputs = {
        output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", ())
    }
    tables = {
        table: outputs[name] for table in Table if (name := output_name(table)) in outputs
    }
    return FoundStack(stack["StackName"], stack["StackStatus"], outputs, tables)
