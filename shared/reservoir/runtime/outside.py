"""The one list of what is outside a process: its settings, its time, and every port that needs an implementation.

On AWS it is ``reservoir.runtime.composition.parts.aws_outside.AwsOutside``; tests and the simulation have one in
memory. A new store is a property here and its adapter there.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from reservoir.ports.accounts import AccountStore
from reservoir.ports.capacity_blocks import (
    BlockSeller,
    BootFailureStore,
    CapacityBlocks,
    PurchaseStore,
)
from reservoir.ports.discovery import (
    InstanceTypeReader,
    LaunchEnvironmentReader,
    NetworkReader,
    PriceReader,
    ReservationReader,
)
from reservoir.ports.discovery_turns import DiscoveryTurnStore
from reservoir.ports.ec2 import (
    DryRuns,
    FleetLauncher,
    Instances,
    InstanceTerminator,
    LaunchTemplateStore,
    ReservationChanger,
    ReservationMaker,
    UnitLender,
    UnitMover,
    UnitSplitter,
)
from reservoir.ports.history import DecisionStore, HistoryStore, Telemetry
from reservoir.ports.launches import LaunchAttemptStore, LaunchPolicy, ShortageHistory
from reservoir.ports.messaging import (
    DeadLetters,
    DemandCensus,
    DemandQueue,
    DrainTimers,
    EventPublisher,
    Redelivery,
    StartTimers,
    UnpublishedEvents,
    WorkQueue,
)
from reservoir.ports.overview import AlarmReader, PassReader, QueueReader
from reservoir.ports.policy import PolicyStore
from reservoir.ports.principals import PrincipalReader
from reservoir.ports.safety import TableMarkStore, TallyStore
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    ReservationStore,
    WorkloadStore,
)
from reservoir.ports.system import Clock, Identities, IdFactory
from reservoir.runtime.settings import Settings


class Outside(Protocol):
    """What compositions join use cases to. A property is made when it is first read."""

    @property
    def settings(self) -> Settings:
        """What the deployment chose, and the names of its tables and queues."""

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def ids(self) -> IdFactory:
        """New ids."""

    @property
    def monotonic_s(self) -> Callable[[], float]:
        """Seconds since some moment, by a clock that is never set."""

    @property
    def pause(self) -> Callable[[float], None]:
        """Wait so many seconds."""

    @property
    def executor(self) -> Executor:
        """For calls that need not wait for each other."""

    @property
    def workloads(self) -> WorkloadStore:
        """Workloads."""

    @property
    def demand_census(self) -> DemandCensus:
        """How much each sender sent lately, and what waits."""

    @property
    def reservations(self) -> ReservationStore:
        """Reservations."""

    @property
    def discovery_turns(self) -> DiscoveryTurnStore:
        """Whose turn it is to read reservations."""

    @property
    def node_claims(self) -> NodeClaimStore:
        """NodeClaims."""

    @property
    def offerings(self) -> OfferingStore:
        """The catalogue."""

    @property
    def policy(self) -> PolicyStore:
        """NodePools, EC2NodeClasses and Teams."""

    @property
    def launch_policy(self) -> LaunchPolicy:
        """NodePools and EC2NodeClasses, as launches and drains look at them."""

    @property
    def decisions(self) -> DecisionStore:
        """Decisions and their snapshots."""

    @property
    def history(self) -> HistoryStore:
        """What happened."""

    @property
    def accounts(self) -> AccountStore:
        """What instances have cost each team."""

    @property
    def launch_attempts(self) -> LaunchAttemptStore:
        """Attempts of launch batches."""

    @property
    def shortage_history(self) -> ShortageHistory:
        """Shortages, including those that are over."""

    @property
    def boot_failures(self) -> BootFailureStore:
        """Nodes in Capacity Blocks that did not boot."""

    @property
    def tallies(self) -> TallyStore:
        """What ended within the hour, by kind."""

    @property
    def table_marks(self) -> TableMarkStore:
        """The marks on the tables of the state."""

    @property
    def queue(self) -> WorkQueue:
        """The planning and the launch queue."""

    @property
    def demand(self) -> DemandQueue:
        """The demand queue."""

    @property
    def dead_letters(self) -> DeadLetters:
        """Rejected demand."""

    @property
    def reactions(self) -> Redelivery:
        """Redelivery on the reactions queue."""

    @property
    def start_messages(self) -> StartTimers:
        """Messages at the starts of reservations."""

    @property
    def endings(self) -> InstanceTerminator:
        """Messages about instances that are to end, for functions that may not end them."""

    @property
    def unpublished_events(self) -> UnpublishedEvents | None:
        """What the outbound bus refused, where that is kept."""

    @property
    def publisher(self) -> EventPublisher:
        """The outbound bus."""

    @property
    def identities(self) -> Identities:
        """Verifies who signed a request."""

    @property
    def queues(self) -> QueueReader:
        """How full the queues are."""

    @property
    def alarms(self) -> AlarmReader:
        """Which alarms have gone off."""

    @property
    def passes(self) -> PassReader:
        """When functions last did their work."""

    @property
    def telemetry(self) -> Telemetry | None:
        """The receiver of figures, where the deployment names one."""

    @property
    def timers(self) -> DrainTimers:
        """Drain timers."""

    @property
    def reservation_reader(self) -> ReservationReader:
        """EC2's reservations."""

    @property
    def network(self) -> NetworkReader:
        """Where reservations are in the network."""

    @property
    def unit_mover(self) -> UnitMover:
        """Moves of idle units between reservations."""

    @property
    def unit_splitter(self) -> UnitSplitter:
        """Units that become reservations of their own, for nodes that EC2 moves in."""

    @property
    def unit_lender(self) -> UnitLender:
        """Idle units that are lent as interruptible reservations."""

    @property
    def capacity_blocks(self) -> CapacityBlocks:
        """The machines of Capacity Blocks, and blocks that EC2 would sell."""

    @property
    def block_seller(self) -> BlockSeller:
        """EC2 where it sells blocks: for the command line, as no function may buy."""

    @property
    def reservation_changer(self) -> ReservationChanger:
        """EC2 where reservations are changed: for the command line, as no function may."""

    @property
    def reservation_maker(self) -> ReservationMaker:
        """EC2 where it makes reservations: for the command line, as no function may buy."""

    @property
    def purchases(self) -> PurchaseStore:
        """The purchases."""

    @property
    def launch_environment(self) -> LaunchEnvironmentReader:
        """Subnets, security groups, images, instance profiles."""

    @property
    def principals(self) -> PrincipalReader:
        """Unique ids of roles and users."""

    @property
    def instance_types(self) -> InstanceTypeReader:
        """Instance types and where they are sold."""

    @property
    def prices(self) -> PriceReader:
        """On-demand and spot prices."""

    @property
    def instances(self) -> Instances:
        """Our instances: read, tag, terminate."""

    @property
    def fleet(self) -> FleetLauncher:
        """CreateFleet."""

    @property
    def dry_runs(self) -> DryRuns:
        """Whether EC2 would take what launches ask for."""

    @property
    def launch_templates(self) -> LaunchTemplateStore:
        """Launch templates."""
