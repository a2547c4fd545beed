"""Adapters of a stack that may be of another version: only what its outputs need to say for a deployment."""

from datetime import datetime

from reservoir import names
from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.demand_census import DynamoDbDemandCensus
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.policy import DynamoDbPolicyStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.adapters.ec2.instances import Ec2Instances
from reservoir.adapters.ec2.launch_templates import Ec2LaunchTemplates
from reservoir.adapters.eventbridge import EventBridgePublisher
from reservoir.adapters.iam import IamPrincipals
from reservoir.adapters.sqs import SqsWorkQueue
from reservoir.adapters.system import RandomIds, SystemClock
from reservoir.cli.deployment.account import Clients, FoundStack
from reservoir.cli.deployment.deploy import Deployed
from reservoir.cli.deployment.destroy import Fleet
from reservoir.manifests.messages import WithdrawMessage
from reservoir.names import Queue, Table, output_name
from reservoir.ports.state import ConflictError
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.demand.intake import Intake
from reservoir.usecases.policy.apply_policy import ApplyPolicy
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals
from reservoir.usecases.policy.write_policy import WritePolicy


def deployed(clients: Clients, stack: FoundStack) -> Deployed:
    """Return the stores that show what happens to a stack's policy."""
    policy = DynamoDbPolicyStore(
        clients("dynamodb"), stack.tables[Table.POLICY], SystemClock()
    )
    queue, publisher = _queue(clients, stack), _publisher(clients, stack)
    principals = ResolvePrincipals(IamPrincipals(clients("iam")), SystemClock())
    workloads = DynamoDbWorkloadStore(
        clients("dynamodb"), stack.tables[Table.WORKLOADS], SystemClock()
    )
    census = DynamoDbDemandCensus(
        clients("dynamodb"), stack.tables[Table.WORKLOADS], SystemClock()
    )

    def namespaces() -> frozenset[str]:
        keys = {*workloads.placed_revisions(), *census.waiting_keys()}
        return frozenset(key.partition("/")[0] for key in keys)

    def demand_policy() -> str | None:
        with map_client_errors():
            asked = clients("sqs").get_queue_attributes(
                QueueUrl=stack.outputs[output_name(Queue.DEMAND)],
                AttributeNames=["Policy"],
            )
        found: str | None = asked.get("Attributes", {}).get("Policy")
        return found

    return Deployed(
        policy,
        _node_claims(clients, stack),
        # asked alone what would change
        ApplyPolicy(policy, WritePolicy(policy, queue, publisher, stack.name), principals),
        namespaces,
        demand_policy,
    )


def fleet(clients: Clients, stack: FoundStack) -> Fleet:
    """Return what a stack runs."""
    owner = stack.outputs[output_name(names.DEPLOYMENT)]
    workloads = DynamoDbWorkloadStore(
        clients("dynamodb"), stack.tables[Table.WORKLOADS], SystemClock()
    )
    intake = Intake(
        workloads,
        _nobody_leaves,
        _queue(clients, stack),
        _publisher(clients, stack),
        SystemClock(),
    )
    by = clients("sts").get_caller_identity()["UserId"]

    def withdraw(message: WithdrawMessage) -> bool:
        try:
            # Not over the queue: a Team would refuse a sender who is none of its principals, and the deployment is
            # being removed.
            answer = intake.apply(message, DemandRules(), by)
        except ConflictError:
            return False
        intake.wake_planner([message.workload.key])
        intake.publish_answers({RandomIds().new_id("destroy"): answer})
        return True

    return Fleet(
        instances=Ec2Instances(clients("ec2"), owner),
        templates=Ec2LaunchTemplates(clients("ec2"), owner, SystemClock()),
        node_claims=_node_claims(clients, stack),
        workloads=workloads,
        withdraw=withdraw,
    )


def _nobody_leaves(
    workload_key: str, claim_id: str, count: int | None, now: datetime
) -> bool:
    del workload_key, claim_id, count, now
    return False  # releases are the workload systems' own


def _queue(clients: Clients, stack: FoundStack) -> SqsWorkQueue:
    return SqsWorkQueue(
        clients("sqs"),
        planning_url=stack.outputs[output_name(Queue.PLANNING)],
        launches_url=stack.outputs[output_name(Queue.LAUNCHES)],
        ids=RandomIds(),
    )


def _publisher(clients: Clients, stack: FoundStack) -> EventBridgePublisher:
    return EventBridgePublisher(
        clients("events"), stack.outputs[output_name(names.EVENT_BUS)]
    )


def _node_claims(clients: Clients, stack: FoundStack) -> DynamoDbNodeClaimStore:
    return DynamoDbNodeClaimStore(
        clients("dynamodb"),
        node_claims_table=stack.tables[Table.NODE_CLAIMS],
        reservations_table=stack.tables[Table.RESERVATIONS],
        workloads_table=stack.tables[Table.WORKLOADS],
        clock=SystemClock(),
    )
