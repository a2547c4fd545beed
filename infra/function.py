"""One Lambda function: the only place that makes them, so that they do not differ by accident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.assets.bundle import LayerTarget
from infra.config import FunctionSettings
from infra.iam.acknowledgements import acknowledge_runtime, acknowledge_wildcards
from infra.iam.grants import Grant
from infra.naming import function_name
from infra.tables import kept
from reservoir.names import Function

RETRY_BY_SCHEDULE_MIN = 5


@dataclass(frozen=True, slots=True)
class FunctionBundle:
    """What all functions share."""

    code: lambda_.Code
    layer: lambda_.ILayerVersion
    target: LayerTarget
    keep_logs: bool  # when the stack is deleted
    log_retention_days: int
    environment: Mapping[str, str]
    reserve_concurrency: bool
    is_traced: bool


class ReservoirFunction(Construct):
    """A function with its own role, which holds ``grants`` and the right to write its own log, and nothing else."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        function: Function,
        settings: FunctionSettings,
        bundle: FunctionBundle,
        grants: Sequence[Grant],
    ) -> None:
        super().__init__(scope, construct)
        name = function_name(Stack.of(self).stack_name, function)
        # Its name is CloudFormation's to choose: a log that was kept must not be in the way of the next stack.
        log_group = logs.LogGroup(
            self,
            "Log",
            removal_policy=kept(retain=bundle.keep_logs),
        )
        keep_days(log_group, bundle.log_retention_days)
        role = self._role(name, log_group, grants)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            handler=f"functions.{function}.handler.handler",
            code=bundle.code,
            layers=[bundle.layer],
            runtime=bundle.target.runtime,
            architecture=bundle.target.architecture,
            role=role,
            timeout=Duration.seconds(settings.timeout_s),
            memory_size=settings.memory_mib,
            reserved_concurrent_executions=settings.reserved_concurrency
            if bundle.reserve_concurrency
            else None,
            environment={**bundle.environment, "POWERTOOLS_SERVICE_NAME": function.value},
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            # a line a start and a line an end say nothing
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            # Work that waits wakes who plans it again and again, and launches wake planners: Lambda takes the sixteenth
            # message of such a chain for a loop and drops it.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
        )
        acknowledge_runtime(self.function)
        raw = self.function.node.default_child
        if bundle.is_traced and isinstance(raw, lambda_.CfnFunction):
            # Not by the property of Function, which would add a statement of its own beside that of the grants.
            raw.tracing_config = lambda_.CfnFunction.TracingConfigProperty(mode="Active")
        by_schedule = settings.every_min is not None and settings.queue is None
        if by_schedule and (settings.every_min or 0) <= RETRY_BY_SCHEDULE_MIN:
            # The schedule comes again soon; a retry on top of it would only be one more pass at the same time.
            self.function.configure_async_invoke(
                retry_attempts=0, max_event_age=Duration.minutes(1)
            )

    def _role(
        self, function_name: str, log_group: logs.LogGroup, grants: Sequence[Grant]
    ) -> iam.Role:
        """Return the function's role, which holds ``grants`` and may write its log.

        All inline policies of a role share 10,240 characters; a managed policy has 6,144 of its own. What EC2 wants is
        about half of all, and a long name of the stack or keys of the account's must not make it too long.
        """
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {function_name} may do",
        )
        log_group.grant_write(role)
        of_ec2 = [grant for grant in grants if grant.actions[0].startswith("ec2:")]
        others = [grant for grant in grants if not grant.actions[0].startswith("ec2:")]
        for grant in others:
            role.add_to_policy(grant.statement())
        acknowledge_wildcards(role, others)
        if of_ec2:
            policy = iam.ManagedPolicy(
                role,
                # Not "Ec2": a release before made an inline policy of that name, and CloudFormation changes no types.
                "Ec2Permissions",
                description=f"What {function_name} may do in EC2",
                statements=[grant.statement() for grant in of_ec2],
                roles=[role],
            )
            acknowledge_wildcards(policy, of_ec2)
        return role


def keep_days(log_group: logs.LogGroup, days: int) -> None:
    """Set how long a log is kept. The construct takes an enumeration, CloudWatch a number."""
    raw = log_group.node.default_child
    if isinstance(raw, logs.CfnLogGroup):
        raw.retention_in_days = days
