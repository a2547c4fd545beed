"""What an instance can do from inside: its metadata, and AWS with the credentials that it finds there."""

import json
from typing import Any

from botocore.utils import InstanceMetadataFetcher

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import NODE_ROLE
from lab.story.world import World
from reservoir.names import (
    IDENTITY,
    IDENTITY_INDEX,
    IDENTITY_KEY,
    INSTANCE_ARN_PREFIX,
    Queue,
    Table,
)


def let_nodes_in(world: World, *outputs: str) -> None:
    """Attach what nodes may do to their role, as an administrator would; ``outputs`` name further policies."""
    for output in ("NodePolicyArn", *outputs):
        world.aws.client("iam").attach_role_policy(
            RoleName=NODE_ROLE, PolicyArn=world.reservoir.outputs[output]
        )


class Inside:
    """One instance, from inside."""

    def __init__(self, world: World, instance_id: str) -> None:
        self._world = world
        self.arn = world.output(INSTANCE_ARN_PREFIX) + instance_id
        self.table = world.output(Table.NODE_CLAIMS.value)
        self.credentials = credentials_of(world.aws, instance_id)

    def client(self, service: str) -> Any:
        return self._world.aws.client(service, **self.credentials)

    def identities(
        self, instance_arn: str, index: str = IDENTITY_INDEX, key: str = IDENTITY_KEY
    ) -> list[Any]:
        """Return the rows under an ARN."""
        found = self.client("dynamodb").query(
            TableName=self.table,
            IndexName=index,
            KeyConditionExpression="#k = :k",
            ExpressionAttributeNames={"#k": key},
            ExpressionAttributeValues={":k": {"S": instance_arn}},
        )
        return list(found["Items"])

    def report(self, kind: str, workload: str, **fields: Any) -> None:
        """Report something of replicas."""
        namespace, _, name = workload.partition("/")
        body = {
            "report": kind,
            "workload": {"namespace": namespace, "name": name},
            **fields,
        }
        url = self._world.output(Queue.REPORTS.value)
        self.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(body))

    def identity(self) -> dict[str, Any]:
        """Return what the instance may know of itself."""
        (row,) = self.identities(self.arn)
        found: dict[str, Any] = json.loads(row[IDENTITY]["S"])
        return found


def credentials_of(aws: EmbeddedAws, instance_id: str) -> dict[str, str]:
    """Return what AWS's own SDK finds in the metadata of an instance."""
    fetcher = InstanceMetadataFetcher(
        config={"ec2_metadata_service_endpoint": aws.metadata_url(instance_id)}
    )
    found = fetcher.retrieve_iam_role_credentials()
    return {
        "aws_access_key_id": found["access_key"],
        "aws_secret_access_key": found["secret_key"],
        "aws_session_token": found["token"],
    }
