"""What functions count and measure when it happens; a quiet hour writes nothing, and so costs nothing."""

from collections.abc import Mapping
from typing import Final

from reservoir.core.history.measures import Unit

COUNTERS: Final[Mapping[str, str]] = {
    "WorkloadsChanged": "workloads that a message created, changed or withdrew",
    "WorkloadRejected": "messages that were not understood",
    "ReplicasPlaced": "replicas that plans gave a place",
    "ReplicasPending": "replicas that plans left waiting, in every pass again",
    "ReplicasHeld": "of these, those that would have been placed against a rule",
    "WorkloadsUnread": "workloads that wait and that passes had no room to read, in every pass again",
    "NodeClaimsPlanned": "nodes that plans ask for",
    "PlansLost": "transactions of plans that lost a race and were planned again",
    "PlanShortcomings": "rules of quality that a plan missed, without harm to anybody",
    "NodesLaunched": "launches that EC2 answered with an instance",
    "LaunchesFailed": "nodes that EC2 refused",
    "LaunchesDelayed": "batches that were sent again because EC2 did not answer or was throttled",
    "LaunchesBlocked": "classes that cannot launch anything until they are changed, or whose nodes never start, and "
    "reservations that begin soon and could not be launched into",
    "LaunchesRefused": "launches refused because a quota is used up, or for a reason that somebody must look at",
    "QuotasReached": "of these, those because of a quota",
    "BatchesSentAgain": "launch batches whose message was lost",
    "NodesNeverStarted": "instances that did not reach running in time",
    "NodesEndedEarly": "instances that ended before they ran",
    "NodesUnhealthy": "nodes that failed their status checks",
    "NodesExpired": "nodes older than their pool allows",
    "NodesDrained": "drains that an event of AWS began",
    "BlockDrainsStarted": "drains that began because a Capacity Block ends",
    "DeadlinesPassed": "drains that ended at their deadline with replicas on the node",
    "CapacityTypesChanged": "nodes that went on demand, or into a reservation, without being launched again",
    "CapacitySuspected": "reservations with units on which nodes do not boot",
    "TerminationsRefused": "instances that EC2 refuses to terminate",
    "EndingsHeld": "endings that the safety envelope holds",
    "TablesUnknown": "passes in which the tables were not known to be whole",
    "OrphansFound": "instances without a claim that were ended",
    "OrphansSpared": "instances without a claim that were left alone",
    "ReservationsStarted": "reservations whose start a timer told",
    "HealthUnread": "sweeps in which EC2 did not say which nodes are unhealthy",
    "TimersRefused": "exact timers that EventBridge Scheduler did not take",
    "PublicationsRefused": "requests to publish events that the outbound bus refused, and that are kept",
    "PublicationsMadeUpFor": "of these, those that the bus took later",
    "TagsRefused": "runs in which EC2 refused to tag instances with their claims",
    "ReservationsUnread": "ends of blocks that EC2 could not be asked for",
    "LeasesAbsorbed": "leases that an observation replaced",
    "DiscoveriesShared": "events that another reading of reservations served",
    "DiscoveryFailures": "parts of a discovery for which the last good facts were kept",
    "InstanceTypesUnpriced": "instance types without a price",
    "InstanceTypesPricedFromBefore": "instance types whose last known price was kept",
    "SpotOfferingsLost": "spot offerings without a price",
    "ReportsApplied": "reports of nodes about their replicas that changed something",
    "ReportsRefused": "reports that were not understood, or that the node may not make",
    "ReportsOfOthers": "reports by instances that are not ours",
    "ObjectsOperated": "nodes and NodePools that somebody cordoned, drained, deleted, paused or resumed",
    "EventsAboutOthers": "events about instances that are not ours",
    "EventsIgnored": "events that ask for nothing",
    "EventsUnreadable": "events that could not be read",
    "MessageRetried": "messages that are delivered again",
    "MessageBug": "messages that met a bug",
    "WakeUpsUnknown": "wake-ups of the planner that were not understood, and asked for everybody",
    "BatchesUnknown": "messages of the launch queue that name no batch",
    "RowsUnreadable": "rows of the tables that could not be read",
}

# How much of it, where it is more than a number of times.
AMOUNTS: Final[Mapping[str, tuple[Unit, str]]] = {
    "PlanTime": (
        Unit.SECONDS,
        "how long solving took in a pass that planned something, all attempts together",
    ),
    "PlanGap": (
        Unit.PERCENT,
        "how much dearer than its own lower bound a plan may be; nothing where it has no bound",
    ),
    "BlockDrainLateness": (
        Unit.SECONDS,
        "how long after its time the latest drain of a Capacity Block began",
    ),
    "DrainLateness": (
        Unit.SECONDS,
        "how long after its deadline the latest drain was ended that did not end before",
    ),
}
