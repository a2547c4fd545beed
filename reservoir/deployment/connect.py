"""Adapters of a stack that may be of another version: only what its outputs need to say for a deployment."""

from reservoir.deployment.account import Clients, FoundStack
from reservoir.deployment.deploy import Deployed
from reservoir.deployment.destroy import Fleet
from shared import names
from shared.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from shared.adapters.dynamodb.policy import DynamoDbPolicyStore
from shared.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from shared.adapters.ec2.instances import Ec2Instances
from shared.adapters.ec2.launch_templates import Ec2LaunchTemplates
from shared.adapters.eventbridge import EventBridgePublisher
from shared.adapters.iam import IamPrincipals
from shared.adapters.sqs import SqsWorkQueue
from shared.adapters.system import RandomIds, SystemClock
from shared.names import Queue, Table, output_name
from shared.usecases.policy.apply_policy import ApplyPolicy
from shared.usecases.policy.resolve_principals import ResolvePrincipals


def deployed(clients: Clients, stack: FoundStack) -> Deployed:
    """Return the stores that tell what becomes of a stack's policy."""
    policy = DynamoDbPolicyStore(clients("dynamodb"), stack.tables[Table.POLICY], SystemClock())
    queue = SqsWorkQueue(
        clients("sqs"),
        planning_url=stack.outputs[output_name(Queue.PLANNING)],
        launches_url=stack.outputs[output_name(Queue.LAUNCHES)],
        ids=RandomIds(),
    )
    publisher = EventBridgePublisher(clients("events"), stack.outputs[output_name(names.EVENT_BUS)])
    principals = ResolvePrincipals(IamPrincipals(clients("iam")), SystemClock())
    return Deployed(policy, _node_claims(clients, stack), ApplyPolicy(policy, publisher, queue, principals))


def fleet(clients: Clients, stack: FoundStack) -> Fleet:
    """Return what a stack runs."""
    owner, demand_url = stack.outputs[output_name(names.DEPLOYMENT)], stack.outputs[output_name(Queue.DEMAND)]

    def send_demand(body: str) -> None:
        clients("sqs").send_message(QueueUrl=demand_url, MessageBody=body)

    return Fleet(
        instances=Ec2Instances(clients("ec2"), owner),
        templates=Ec2LaunchTemplates(clients("ec2"), owner),
        node_claims=_node_claims(clients, stack),
        workloads=DynamoDbWorkloadStore(clients("dynamodb"), stack.tables[Table.WORKLOADS], SystemClock()),
        send_demand=send_demand,
    )


def _node_claims(clients: Clients, stack: FoundStack) -> DynamoDbNodeClaimStore:
    return DynamoDbNodeClaimStore(
        clients("dynamodb"),
        node_claims_table=stack.tables[Table.NODE_CLAIMS],
        reservations_table=stack.tables[Table.RESERVATIONS],
        workloads_table=stack.tables[Table.WORKLOADS],
        clock=SystemClock(),
    )
