"""What is outside a process, on AWS; each part is made when first used, so a cold start pays only for what it uses.

It is one of the compositions because a use case over another port implements one port, ``LaunchPolicy``.
"""

import time
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from reservoir.adapters.caller_identity import StsIdentities
from reservoir.adapters.clients import (
    LITTLE_PATIENCE,
    ONE_LONG_WAIT,
    ONE_PURCHASE,
    lazy_client,
    make_client,
    pricing_region,
)
from reservoir.adapters.dynamodb.accounts import DynamoDbAccounts
from reservoir.adapters.dynamodb.boot_failures import DynamoDbBootFailures
from reservoir.adapters.dynamodb.decisions import StoredDecisions
from reservoir.adapters.dynamodb.demand_census import DynamoDbDemandCensus
from reservoir.adapters.dynamodb.discovery_turn import DynamoDbDiscoveryTurns
from reservoir.adapters.dynamodb.history import DynamoDbHistory
from reservoir.adapters.dynamodb.launches import (
    DynamoDbLaunchAttempts,
    DynamoDbShortageHistory,
)
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.offerings import DynamoDbOfferingStore
from reservoir.adapters.dynamodb.policy import DynamoDbPolicyStore
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.adapters.ec2.block_seller import Ec2BlockSeller
from reservoir.adapters.ec2.capacity_blocks import Ec2CapacityBlocks
from reservoir.adapters.ec2.dry_runs import Ec2DryRuns
from reservoir.adapters.ec2.fleet import Ec2FleetLauncher
from reservoir.adapters.ec2.instance_types import Ec2InstanceTypeReader
from reservoir.adapters.ec2.instances import Ec2Instances
from reservoir.adapters.ec2.launch_templates import Ec2LaunchTemplates
from reservoir.adapters.ec2.network import Ec2LaunchEnvironment
from reservoir.adapters.ec2.reservation_changer import Ec2ReservationChanger
from reservoir.adapters.ec2.reservation_maker import Ec2ReservationMaker
from reservoir.adapters.ec2.reservations import Ec2NetworkReader, Ec2ReservationReader
from reservoir.adapters.ec2.unit_moves import Ec2UnitLender, Ec2UnitMover
from reservoir.adapters.ec2.unit_splits import Ec2UnitSplitter
from reservoir.adapters.eventbridge import EventBridgePublisher, SqsUnpublishedEvents
from reservoir.adapters.iam import IamPrincipals
from reservoir.adapters.overview import AwsAlarms, AwsPasses, AwsQueues
from reservoir.adapters.pacing import Pacer
from reservoir.adapters.pricing import AwsPriceReader
from reservoir.adapters.safety.purchases import DynamoDbPurchases
from reservoir.adapters.safety.table_marks import DynamoDbTableMarks
from reservoir.adapters.safety.tallies import DynamoDbTallies
from reservoir.adapters.scheduler_timers import SchedulerDrainTimers
from reservoir.adapters.sqs import (
    SqsDeadLetters,
    SqsDemandQueue,
    SqsEndings,
    SqsRedelivery,
    SqsStartMessages,
    SqsWorkQueue,
)
from reservoir.adapters.system import RandomIds, SystemClock
from reservoir.core.capacity.token_bucket import CREATE_TAGS_CALLS, MUTATING_CALLS
from reservoir.names import MARKED_TABLES, Queue, Table, output_name
from reservoir.ports.errors import AwsError
from reservoir.ports.history import Telemetry
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.ports.system import Clock
from reservoir.runtime.settings import Settings

# As many launch functions run at once at most (the stack's setting); each takes its share of EC2's rate.
_LAUNCHERS_MAX: Final = 5
# More than any use case asks for at once; botocore keeps ten connections.
_SIDE_BY_SIDE_MAX: Final = 8


def _count_refused_timer(name: str, error: AwsError) -> None:
    # Here and not above: the command line has this outside too, sets no timers, and is installed without Powertools.
    from reservoir.runtime.observability import count_for_all, logger

    logger.warning("timer refused", extra={"timer": name, "code": error.code})
    count_for_all("TimersRefused")


def _count_refused_events(error: AwsError) -> None:
    from reservoir.runtime.observability import count, logger

    logger.warning("the bus refused events", extra={"code": error.code})
    count("PublicationsRefused")


class AwsOutside:
    """Implements ``reservoir.runtime.outside.Outside`` on AWS. One instance a process; parts share clients."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.ids = RandomIds()
        self.monotonic_s = time.monotonic
        self.pause = time.sleep

    @cached_property
    def executor(self) -> Executor:
        """For calls that need not wait for each other; what runs in it never waits for another that does."""
        return ThreadPoolExecutor(_SIDE_BY_SIDE_MAX, thread_name_prefix="side-by-side")

    @cached_property
    def parts_executor(self) -> Executor:
        """For the parts of one read or one publication, which may itself run in ``executor``."""
        return ThreadPoolExecutor(_SIDE_BY_SIDE_MAX, thread_name_prefix="parts")

    # clients

    @cached_property
    def dynamodb(self) -> Any:
        """DynamoDB."""
        return lazy_client("dynamodb")

    @cached_property
    def ec2(self) -> Any:
        """EC2."""
        return lazy_client("ec2")

    @cached_property
    def _sqs(self) -> Any:
        return lazy_client("sqs")

    # state

    @cached_property
    def workloads(self) -> DynamoDbWorkloadStore:
        """Workloads."""
        table = self.settings.tables[Table.WORKLOADS]
        return DynamoDbWorkloadStore(self.dynamodb, table, self.clock, self.parts_executor)

    @cached_property
    def demand_census(self) -> DynamoDbDemandCensus:
        """How much each sender sent lately."""
        return DynamoDbDemandCensus(
            self.dynamodb,
            self.settings.tables[Table.WORKLOADS],
            self.clock,
            self.parts_executor,
        )

    @cached_property
    def reservations(self) -> DynamoDbReservationStore:
        """Reservations."""
        tables = self.settings.tables
        return DynamoDbReservationStore(
            self.dynamodb,
            tables[Table.RESERVATIONS],
            tables[Table.NODE_CLAIMS],
            self.clock,
            self.settings.instance_arn_prefix,
        )

    @cached_property
    def discovery_turns(self) -> DynamoDbDiscoveryTurns:
        """Whose turn it is to read reservations."""
        return DynamoDbDiscoveryTurns(
            self.dynamodb, self.settings.tables[Table.RESERVATIONS], self.clock
        )

    @cached_property
    def node_claims(self) -> DynamoDbNodeClaimStore:
        """NodeClaims."""
        tables = self.settings.tables
        return DynamoDbNodeClaimStore(
            self.dynamodb,
            node_claims_table=tables[Table.NODE_CLAIMS],
            reservations_table=tables[Table.RESERVATIONS],
            workloads_table=tables[Table.WORKLOADS],
            clock=self.clock,
            instance_arn_prefix=self.settings.instance_arn_prefix,
            parts=self.parts_executor,
        )

    @cached_property
    def offerings(self) -> DynamoDbOfferingStore:
        """The catalogue."""
        return DynamoDbOfferingStore(
            self.dynamodb, self.settings.tables[Table.OFFERINGS], self.clock, self.executor
        )

    @cached_property
    def policy(self) -> DynamoDbPolicyStore:
        """NodePools and EC2NodeClasses."""
        return DynamoDbPolicyStore(
            self.dynamodb, self.settings.tables[Table.POLICY], self.clock
        )

    @cached_property
    def launch_policy(self) -> LaunchPolicy:
        """NodePools and EC2NodeClasses, as launches and drains look at them."""
        # imported here, because most functions read no manifests and shall not wait for what reads them
        from reservoir.usecases.policy.stored_policy import StoredPolicy

        return StoredPolicy(self.policy, self.clock)

    @cached_property
    def decisions(self) -> StoredDecisions:
        """Decisions and their snapshots."""
        table = self.settings.tables[Table.DECISIONS]
        bucket = self.settings.snapshots_bucket
        return StoredDecisions(self.dynamodb, table, lazy_client("s3"), bucket, self.clock)

    @cached_property
    def history(self) -> DynamoDbHistory:
        """What happened."""
        settings = self.settings
        return DynamoDbHistory(
            self.dynamodb,
            settings.tables[Table.HISTORY],
            self.clock,
            kept=settings.history_kept,
        )

    @cached_property
    def accounts(self) -> DynamoDbAccounts:
        """What instances have cost each namespace."""
        return DynamoDbAccounts(
            self.dynamodb, self.settings.tables[Table.ACCOUNTS], self.clock
        )

    @cached_property
    def launch_attempts(self) -> DynamoDbLaunchAttempts:
        """Attempts of launch batches."""
        return DynamoDbLaunchAttempts(
            self.dynamodb, self.settings.tables[Table.NODE_CLAIMS], self.clock
        )

    @cached_property
    def shortage_history(self) -> DynamoDbShortageHistory:
        """Shortages, including those that are over."""
        return DynamoDbShortageHistory(
            self.dynamodb, self.settings.tables[Table.OFFERINGS], self.clock
        )

    @cached_property
    def boot_failures(self) -> DynamoDbBootFailures:
        """Nodes in Capacity Blocks that did not boot."""
        return DynamoDbBootFailures(
            self.dynamodb, self.settings.tables[Table.RESERVATIONS], self.clock
        )

    @cached_property
    def tallies(self) -> DynamoDbTallies:
        """What ended within the hour, by kind."""
        return DynamoDbTallies(
            self.dynamodb, self.settings.tables[Table.NODE_CLAIMS], self.clock
        )

    @cached_property
    def table_marks(self) -> DynamoDbTableMarks:
        """The marks on the tables of the state."""
        tables = {
            output_name(table.name): self.settings.tables[table] for table in MARKED_TABLES
        }
        return DynamoDbTableMarks(self.dynamodb, tables, self.clock)

    # messages

    @cached_property
    def queue(self) -> WorkQueue:
        """The planning and the launch queue."""
        urls = self.settings.queue_urls
        return SqsWorkQueue(
            self._sqs,
            planning_url=urls[Queue.PLANNING],
            launches_url=urls[Queue.LAUNCHES],
            ids=self.ids,
        )

    @cached_property
    def demand(self) -> SqsDemandQueue:
        """The demand queue."""
        return SqsDemandQueue(self._sqs, self.settings.queue_urls[Queue.DEMAND])

    @cached_property
    def dead_letters(self) -> SqsDeadLetters:
        """Rejected demand."""
        return SqsDeadLetters(self._sqs, self.settings.demand_dead_letter_queue_url)

    @cached_property
    def reactions(self) -> SqsRedelivery:
        """Redelivery on the reactions queue."""
        return SqsRedelivery(self._sqs, self.settings.queue_urls[Queue.REACTIONS])

    @cached_property
    def start_messages(self) -> SqsStartMessages:
        """Messages to the reactions queue at the starts of reservations."""
        return SqsStartMessages(
            self._sqs,
            self.settings.queue_urls[Queue.REACTIONS],
            self.clock,
            _count_refused_timer,
        )

    @cached_property
    def endings(self) -> SqsEndings:
        """Messages to the reactions queue about instances that are to end."""
        return SqsEndings(self._sqs, self.settings.queue_urls[Queue.REACTIONS], self.clock)

    @cached_property
    def publisher(self) -> EventPublisher:
        """The outbound bus."""
        return EventBridgePublisher(
            self._events,
            self.settings.event_bus,
            self.parts_executor,
            self.unpublished_events,
        )

    @cached_property
    def unpublished_events(self) -> SqsUnpublishedEvents | None:
        """What the outbound bus refused; None for the command line at a stack that has no such queue yet."""
        url = self.settings.unpublished_events_queue_url
        if url is None:
            return None
        return SqsUnpublishedEvents(self._sqs, url, self._events, _count_refused_events)

    @cached_property
    def _events(self) -> Any:
        return lazy_client("events")

    @cached_property
    def identities(self) -> StsIdentities:
        """Verifies who signed a request."""
        return StsIdentities(make_client("sts"))

    @cached_property
    def _cloudwatch(self) -> Any:
        return lazy_client("cloudwatch")

    @cached_property
    def queues(self) -> AwsQueues:
        """How full the queues are."""
        return AwsQueues(self._sqs, self._cloudwatch, self.settings.queue_urls, self.clock)

    @cached_property
    def alarms(self) -> AwsAlarms:
        """Which alarms have gone off."""
        return AwsAlarms(self._cloudwatch, self.settings.deployment)

    @cached_property
    def passes(self) -> AwsPasses:
        """When functions last did their work."""
        return AwsPasses(self._cloudwatch, self.settings.deployment, self.clock)

    @cached_property
    def telemetry(self) -> Telemetry | None:
        """The receiver of figures by OTLP; None where the deployment names none."""
        endpoint = self.settings.otlp_endpoint
        if endpoint is None:
            return None
        # Loading OpenTelemetry's packages takes a third of a second; only a deployment that pushes pays it.
        adapter = import_module("reservoir.adapters.open_telemetry")
        telemetry: Telemetry = adapter.OtlpTelemetry(
            endpoint,
            lazy_client("ssm"),
            deployment=self.settings.deployment,
            region=self.settings.region,
        )
        return telemetry

    @cached_property
    def timers(self) -> SchedulerDrainTimers:
        """Drain timers."""
        return SchedulerDrainTimers(
            lazy_client("scheduler", patience=LITTLE_PATIENCE),
            group=self.settings.drain_schedule_group,
            role_arn=self.settings.drain_schedule_role_arn,
            target_arn=self.settings.drain_schedule_target_arn,
            dead_letters_arn=self.settings.drain_schedule_dead_letters_arn,
            clock=self.clock,
            on_refusal=_count_refused_timer,
        )

    # EC2 and prices

    @cached_property
    def reservation_reader(self) -> Ec2ReservationReader:
        """DescribeCapacityReservations."""
        return Ec2ReservationReader(self.ec2, lazy_client("resource-groups"))

    @cached_property
    def network(self) -> Ec2NetworkReader:
        """DescribeCapacityReservationTopology."""
        return Ec2NetworkReader(self.ec2)

    @cached_property
    def unit_mover(self) -> Ec2UnitMover:
        """MoveCapacityReservationInstances."""
        return Ec2UnitMover(self.ec2)

    @cached_property
    def unit_splitter(self) -> Ec2UnitSplitter:
        """CreateCapacityReservationBySplitting."""
        return Ec2UnitSplitter(self.ec2, lazy_client("resource-groups"))

    @cached_property
    def unit_lender(self) -> Ec2UnitLender:
        """CreateInterruptibleCapacityReservationAllocation."""
        return Ec2UnitLender(self.ec2)

    @cached_property
    def capacity_blocks(self) -> Ec2CapacityBlocks:
        """The machines of Capacity Blocks."""
        return Ec2CapacityBlocks(self.ec2)

    @cached_property
    def block_seller(self) -> Ec2BlockSeller:
        """EC2 where it sells; for the command line, as no function may buy."""
        return Ec2BlockSeller(lazy_client("ec2", patience=ONE_PURCHASE), self.ec2)

    @cached_property
    def reservation_changer(self) -> Ec2ReservationChanger:
        """EC2 where reservations are changed; for the command line, as no function may."""
        return Ec2ReservationChanger(lazy_client("ec2", patience=ONE_PURCHASE), self.ec2)

    @cached_property
    def reservation_maker(self) -> Ec2ReservationMaker:
        """EC2 where it makes reservations; for the command line, as no function may buy."""
        return Ec2ReservationMaker(self.ec2)

    @cached_property
    def purchases(self) -> DynamoDbPurchases:
        """The purchases."""
        return DynamoDbPurchases(
            self.dynamodb, self.settings.tables[Table.POLICY], self.clock
        )

    @cached_property
    def launch_environment(self) -> Ec2LaunchEnvironment:
        """Subnets, security groups, images, instance profiles."""
        return Ec2LaunchEnvironment(
            self.ec2, lazy_client("ssm"), lazy_client("iam"), self.clock
        )

    @cached_property
    def principals(self) -> IamPrincipals:
        """Unique ids of roles and users."""
        return IamPrincipals(lazy_client("iam"))

    @cached_property
    def instance_types(self) -> Ec2InstanceTypeReader:
        """Instance types and where they are sold."""
        settings = self.settings
        return Ec2InstanceTypeReader(
            self.ec2, region=settings.region, vm_memory_overhead=settings.vm_memory_overhead
        )

    @cached_property
    def prices(self) -> AwsPriceReader:
        """On-demand and spot prices."""
        region = self.settings.region
        pricing = lazy_client("pricing", pricing_region(region))
        return AwsPriceReader(pricing, self.ec2, region=region, clock=self.clock)

    @cached_property
    def _mutating_pacer(self) -> Pacer:
        return Pacer(MUTATING_CALLS.shared_by(_LAUNCHERS_MAX))

    @cached_property
    def instances(self) -> Ec2Instances:
        """Our instances: read, tag, terminate. Launches and the collector share the rate of CreateTags."""
        return Ec2Instances(
            self.ec2, self.settings.deployment, Pacer(CREATE_TAGS_CALLS.shared_by(2))
        )

    @cached_property
    def fleet(self) -> Ec2FleetLauncher:
        """CreateFleet."""
        return Ec2FleetLauncher(
            lazy_client("ec2", patience=ONE_LONG_WAIT), self.clock, self._mutating_pacer
        )

    @cached_property
    def dry_runs(self) -> Ec2DryRuns:
        """Whether EC2 would take what launches ask for."""
        return Ec2DryRuns(self.ec2, self._mutating_pacer)

    @cached_property
    def launch_templates(self) -> Ec2LaunchTemplates:
        """Launch templates."""
        return Ec2LaunchTemplates(
            self.ec2, self.settings.deployment, self.clock, self._mutating_pacer
        )
