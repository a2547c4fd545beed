"""What the account already holds of a deployment: stacks, tables, instances."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from reservoir import names
from reservoir.names import Table, output_name

Clients = Callable[[str], Any]  # a boto3 client for a service's name

SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
# A change set that was never executed, or a first create that failed: nothing of it works, and the CDK creates it
# again.
_NEVER_CREATED: Final = frozenset(
    {"REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}
)
_KEPT: Final = "DELETE_SKIPPED"  # of a resource that CloudFormation kept
_NOT_FOUND: Final = "ResourceNotFoundException"
REFUSED: Final = frozenset({"AccessDenied", "AccessDeniedException"})
_NOT_STANDING: Final = _NEVER_CREATED | {"DELETE_COMPLETE"}


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
        """Return the stacks that exist, whoever made them."""
        return [
            _found(stack)
            for stack in self._described_stacks()
            if stack["StackStatus"] not in _NOT_STANDING
        ]

    def _described_stacks(self) -> Iterator[Mapping[str, Any]]:
        for page in (
            self.clients("cloudformation").get_paginator("describe_stacks").paginate()
        ):
            yield from page["Stacks"]

    def _failed(self, name: str) -> Mapping[str, Any] | None:
        """Return the stack of this name whose create failed, if there is one."""
        return next(
            (
                stack
                for stack in self._described_stacks()
                if stack["StackName"] == name and stack["StackStatus"] in _NEVER_CREATED
            ),
            None,
        )

    def release_failed(self, name: str) -> None:
        """Let a stack of this name whose create failed be deleted: the CDK does it at the next attempt.

        Earlier releases protected it, and so does a `cdk deploy` without `make deploy`.
        """
        failed = self._failed(name)
        if failed is not None and failed.get("EnableTerminationProtection", False):
            self.clients("cloudformation").update_termination_protection(
                StackName=name, EnableTerminationProtection=False
            )

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
