"""One IAM statement with its reason, and the resources that statements name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from reservoir import names
from reservoir.deployment.deployment import Deployment
from reservoir.names import Queue, Table


@dataclass(frozen=True, slots=True)
class Grant:
    """One IAM statement and why it is needed; ``sid`` is how docs/security.md calls it."""

    sid: str
    reason: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def statement(self) -> iam.PolicyStatement:
        """Return it in the CDK's form."""
        return iam.PolicyStatement(
            sid=self.sid,
            actions=list(self.actions),
            resources=list(self.resources),
            conditions=self.conditions,
        )


@dataclass(frozen=True, slots=True)
class Resources:
    """What statements name."""

    stack: Stack
    deployment: Deployment
    tables: Mapping[Table, dynamodb.ITable]
    queues: Mapping[Queue, sqs.IQueue]
    dead_letters: Mapping[Queue, sqs.IQueue]
    unpublished_events: sqs.IQueue
    bus: events.IEventBus
    snapshots: s3.IBucket
    drain_timers_arn: str
    drain_role_arn: str
    # the release before, whose functions may still run, reads them
    with_older_indexes: bool

    def indexes(self, table: Table) -> list[str]:
        """Return the ARNs of a table's indexes, each by name."""
        return [
            self.index(table, name)
            for name in names.indexes(table, with_older=self.with_older_indexes)
        ]

    def index(self, table: Table, name: str) -> str:
        """Return the ARN of an index."""
        return f"{self.tables[table].table_arn}/index/{name}"

    def ec2(self, *kinds: str, any_account: bool = False) -> list[str]:
        """Return the ARNs of all EC2 resources of these kinds in the stack's region."""
        account = "*" if any_account else self.stack.account
        return [
            f"arn:{self.stack.partition}:ec2:{self.stack.region}:{account}:{kind}/*"
            for kind in kinds
        ]

    @property
    def instance_roles_arn(self) -> str:
        """Return the ARN (pattern) of the roles that launches may hand to instances."""
        return f"arn:{self.stack.partition}:iam::{self.stack.account}:role/{self.deployment.instance_role}"

    @property
    def reservation_groups_arn(self) -> str:
        """Return the ARNs of resource groups; those of reservations may be shared by other accounts."""
        return f"arn:{self.stack.partition}:resource-groups:{self.stack.region}:*:group/*"

    @property
    def owner_requested(self) -> dict[str, object]:
        """Return the test that what is about to be created gets our owner tag; for ``StringEquals``."""
        return {f"aws:RequestTag/{names.OWNER_TAG}": self.deployment.stack}

    @property
    def owner_present(self) -> dict[str, object]:
        """Return the test that what is to be changed carries our owner tag; for ``StringEquals``."""
        return {f"aws:ResourceTag/{names.OWNER_TAG}": self.deployment.stack}
