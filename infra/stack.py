"""The stack: composes, decides nothing."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Duration, Stack, Tags
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra import data_key
from infra.assets.bundle import LAMBDA, THIS_MACHINE, code_asset, layer_asset
from infra.config import FUNCTIONS, SNAPSHOT_RETENTION_DAYS
from infra.events import AwsEvents, DrainTimers, KeptEvents, Schedules
from infra.function import FunctionBundle, ReservoirFunction, keep_days
from infra.iam.acknowledgements import acknowledge_no_access_log
from infra.iam.grants import Resources
from infra.iam.permissions import DUTIES, grants
from infra.manifests import AppliedPolicy
from infra.operations.observability import Observability
from infra.operations.people import People
from infra.queues import WorkQueues
from infra.safety import safety_environment
from infra.scheduling import planner_environment, purchase_ceilings
from infra.tables import StateTables, kept
from infra.vpc import FunctionsInVpc
from reservoir import names
from reservoir.deployment.deployment import Deployment
from reservoir.deployment.settings import DeploymentSettings
from reservoir.names import Function, Queue, Table, output_name

# All variables of a function share 4 KB, so what is long is told only where it is used: the keys where manifests are
# read, the bounds where nodes are ended by choice.
_ENDING_NOTHING: Final = frozenset(
    {Function.APPLY, Function.CHANGE_POLICY, Function.LAUNCH, Function.RECORD}
)


class ReservoirStack(Stack):
    """One deployment of Reservoir, in one account and region."""

    def __init__(
        self,
        scope: Construct,
        deployment: Deployment,
        *,
        embedded: bool,
        is_new: bool,
        with_older_indexes: bool,
    ) -> None:
        config = deployment.settings
        super().__init__(
            scope,
            deployment.stack,
            description="Puts workloads onto reserved EC2 capacity first",
            # A create that fails must be repeatable: the CDK protects a stack before it creates what is in it, and
            # CloudFormation deletes no protected stack, also not an empty one of which nothing came.
            termination_protection=config.termination_protection and not is_new,
            synthesizer=DefaultStackSynthesizer(qualifier=config.bootstrap_qualifier),
        )
        _keep_rules_of_the_account(self, config)
        self.deployment = deployment
        self.embedded = embedded
        self.tables = StateTables(
            self,
            "State",
            adopted=deployment.tables,
            retain=config.retain,
            protect=config.retain and not is_new,
            with_older_indexes=with_older_indexes,
        )
        self.snapshots = self._snapshots()
        self.queues = WorkQueues(
            self,
            "Queues",
            retain=config.retain,
            event_bus_name=deployment.event_bus_name,
            unpublished_name=self.snapshots.bucket_name + names.UNPUBLISHED_EVENTS_SUFFIX,
        )
        self.bus = events.EventBus(
            self, "Outbound", event_bus_name=deployment.event_bus_name
        )
        self.timers = DrainTimers(
            self,
            "DrainTimers",
            undelivered=self.queues.undelivered,
            key_arn=config.encryption_key,
        )
        self.settings = self._settings()
        self.resources = self._resources()
        self.functions = self._functions()
        self._feed()
        AwsEvents(
            self,
            "Events",
            reactions=self.queues.by_name[Queue.REACTIONS],
            senders=[
                role
                for function, duty in DUTIES.items()
                if Queue.REACTIONS in duty.sends
                and (role := self.functions[function].role) is not None
            ],
            undelivered=self.queues.letters_of_rules,
            discover_reservations=self.functions[Function.DISCOVER_RESERVATIONS],
            with_rebalance=config.rebalance_policy != names.REBALANCE_POLICIES[0],
        )
        KeptEvents(
            self,
            "KeptEvents",
            bus=self.bus,
            history=self.queues.by_name[Queue.HISTORY],
            undelivered=self.queues.letters_of_rules,
        )
        self._watch()
        if deployment.manifests is not None or config.removed:
            AppliedPolicy(
                self,
                "Manifests",
                folder=deployment.manifests,
                removed=config.removed,
                apply=self.functions[Function.APPLY],
            )
        self._outputs()
        if config.vpc is not None:
            FunctionsInVpc(
                self, "Vpc", functions=self.functions.values(), network=config.vpc
            )
        if config.encryption_key is not None:
            data_key.encrypt(self, config.encryption_key)

    def _watch(self) -> None:
        """Set the schedules, and what tells people of a deployment and lets them look."""
        schedules = Schedules(
            self,
            "Schedules",
            functions=self.functions,
            queues=self.queues.by_name,
            undelivered=self.queues.letters_of_rules,
        )
        Observability(
            self,
            "Observability",
            functions=self.functions,
            queues=self.queues,
            schedules=schedules.by_function,
            topic=self.deployment.settings.alarm_topic,
        )
        People(
            self,
            "People",
            resources=self.resources,
            functions=self.functions,
            letters=[*self.queues.dead_letters.values(), self.queues.undelivered],
            schedules=schedules.by_function.values(),
            node_logs=self._node_logs(),
        )

    def _node_logs(self) -> logs.LogGroup:
        """Return the log group of nodes. Its name is known to user data before the stack is there; so it goes with it.

        A group that was kept would be in the way of the next stack of that name. It costs nothing while it is empty.
        """
        group = logs.LogGroup(
            self,
            "NodeLogs",
            log_group_name=names.node_log_group(self.stack_name),
            removal_policy=kept(retain=False),
        )
        keep_days(group, self.deployment.settings.log_retention_days)
        return group

    def _outputs(self) -> None:
        planner = planner_environment(self.deployment.settings)
        purchases = purchase_ceilings(self.deployment.settings)
        for variable, value in {**self.settings, **planner, **purchases}.items():
            CfnOutput(self, output_name(variable), value=value)
        launch_role = self.functions[Function.LAUNCH].role
        if launch_role is not None:  # the principal that a key's own policy must let in
            CfnOutput(self, "LaunchRoleArn", value=launch_role.role_arn)
        for queue, letters in self.queues.dead_letters.items():
            CfnOutput(self, names.dead_letters_output(queue), value=letters.queue_url)
        CfnOutput(self, "UndeliveredQueueUrl", value=self.queues.undelivered.queue_url)
        CfnOutput(
            self, "UnpublishedEventsQueueUrl", value=self.queues.unpublished.queue_url
        )
        CfnOutput(self, names.DEPLOYMENT_NAME_OUTPUT, value=self.deployment.name)
        CfnOutput(self, names.RELEASE_OUTPUT, value=names.VERSION)
        CfnOutput(
            self,
            names.CHANGE_POLICY_OUTPUT,
            value=names.function_name(self.deployment.stack, Function.CHANGE_POLICY),
        )

    def _snapshots(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Snapshots",
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(SNAPSHOT_RETENTION_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=kept(retain=self.deployment.settings.retain),
        )
        acknowledge_no_access_log(bucket)
        return bucket

    def _settings(self) -> dict[str, str]:
        """Return the variables that ``reservoir.names`` promises; the stack outputs them too, for the command line."""
        return {
            **{table.value: self.tables.by_name[table].table_name for table in Table},
            **{queue.value: self.queues.by_name[queue].queue_url for queue in Queue},
            names.DEMAND_DEAD_LETTER_QUEUE: self.queues.dead_letters[
                Queue.DEMAND
            ].queue_url,
            names.EVENT_BUS: self.bus.event_bus_name,
            names.SNAPSHOTS_BUCKET: self.snapshots.bucket_name,
            names.DRAIN_SCHEDULE_GROUP: self.timers.group.schedule_group_name,
            names.DRAIN_SCHEDULE_ROLE_ARN: self.timers.role.role_arn,
            names.DRAIN_SCHEDULE_TARGET_ARN: self.timers.target_arn,
            names.DRAIN_SCHEDULE_DEAD_LETTERS_ARN: self.timers.dead_letters_arn,
            names.DEPLOYMENT: self.stack_name,
            names.INSTANCE_ARN_PREFIX: f"arn:{self.partition}:ec2:{self.region}:{self.account}:instance/",
            **(
                {names.KMS_KEYS: ",".join(keys)}
                if (keys := self.deployment.settings.kms_keys)
                else {}
            ),
            names.METADATA_HTTP_TOKENS_POLICY: self.deployment.settings.metadata_http_tokens,
            names.REBALANCE_POLICY: self.deployment.settings.rebalance_policy,
            names.INSTANCE_STATUS_POLICY: self.deployment.settings.instance_status_policy,
        }

    def _resources(self) -> Resources:
        return Resources(
            stack=self,
            deployment=self.deployment,
            tables=self.tables.by_name,
            queues=self.queues.by_name,
            dead_letters=self.queues.dead_letters,
            unpublished_events=self.queues.unpublished,
            bus=self.bus,
            snapshots=self.snapshots,
            drain_timers_arn=self.timers.timers_arn,
            drain_role_arn=self.timers.role.role_arn,
            with_older_indexes=self.tables.with_older_indexes,
        )

    def _functions(self) -> dict[Function, lambda_.Function]:
        target = THIS_MACHINE if self.embedded else LAMBDA
        layer = lambda_.LayerVersion(
            self,
            "Dependencies",
            code=layer_asset(target),
            compatible_runtimes=[target.runtime],
            compatible_architectures=[target.architecture],
            description="Locked third-party packages",
        )
        bundle = FunctionBundle(
            code=code_asset(target),
            layer=layer,
            target=target,
            keep_logs=self.deployment.settings.retain,
            log_retention_days=self.deployment.settings.log_retention_days,
            environment={
                **self.settings,
                **planner_environment(self.deployment.settings),
                **safety_environment(self.deployment.settings),
                names.HISTORY_DAYS: str(self.deployment.settings.history_days),
                names.PUBLISH_METRICS: str(
                    self.deployment.settings.publish_metrics
                ).lower(),
                "POWERTOOLS_METRICS_NAMESPACE": names.METRICS_NAMESPACE,
            },
            reserve_concurrency=self.deployment.settings.reserve_concurrency,
            is_traced=self.deployment.settings.tracing,
        )
        launch_tags = json.dumps(
            self.deployment.settings.tags, sort_keys=True, separators=(",", ":")
        )
        own_variables = {Function.LAUNCH: {names.LAUNCH_TAGS: launch_tags}}
        if self.deployment.settings.otlp_endpoint is not None:
            endpoint = self.deployment.settings.otlp_endpoint
            own_variables[Function.RECORD] = {names.OTLP_ENDPOINT: endpoint}
        return {
            function: ReservoirFunction(
                self,
                output_name(function),
                function=function,
                settings=FUNCTIONS[function],
                bundle=replace(
                    bundle,
                    environment={
                        **_told(function, bundle.environment),
                        **own_variables.get(function, {}),
                    },
                ),
                grants=grants(function, self.resources),
            ).function
            for function in Function
        }

    def _feed(self) -> None:
        """Connect each queue to the function that works it off. A failed message is retried alone, not its batch."""
        for function, settings in FUNCTIONS.items():
            if settings.queue is not None:
                window_s = settings.batching_window_s
                self.functions[function].add_event_source(
                    sources.SqsEventSource(
                        self.queues.by_name[settings.queue],
                        batch_size=settings.batch_size,
                        max_batching_window=None
                        if window_s is None
                        else Duration.seconds(window_s),
                        max_concurrency=settings.max_concurrency,
                        report_batch_item_failures=True,
                    )
                )


def _keep_rules_of_the_account(stack: Stack, settings: DeploymentSettings) -> None:
    """Put the tags on everything that takes tags, and the boundary on every role, also on those the CDK adds."""
    for key, value in sorted(settings.tags.items()):
        Tags.of(stack).add(key, value)
    if settings.permissions_boundary is not None:
        boundary = iam.ManagedPolicy.from_managed_policy_arn(
            stack, "Boundary", settings.permissions_boundary
        )
        iam.PermissionsBoundary.of(stack).apply(boundary)


def _told(function: Function, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what of the variables a function is told."""
    withheld = set[str]()
    if function not in (Function.APPLY, Function.CHANGE_POLICY):
        withheld.add(names.KMS_KEYS)
    if function in _ENDING_NOTHING:
        withheld.add(names.ENDING_BOUNDS)
    return {name: value for name, value in variables.items() if name not in withheld}
