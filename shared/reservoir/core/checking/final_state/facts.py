"""The checker's facts about the final state: every node after the plan, and the replicas on it."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from reservoir.core.checking.final_state.offering_facts import (
    Listed,
    OfferingFacts,
    in_words,
)
from reservoir.core.checking.final_state.place_facts import place_of
from reservoir.core.model.capacity_reservation import BlockDrain
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import PODS, Resources
from reservoir.core.scheduling_terms.taint import Taint, binding_taints, tolerates_all

_NOTHING: Final = Resources.of({})
_NOBODY: Final[Mapping[str, int]] = {}
_LAUNCHED_ALIKE: Final = Likeness(
    PlannedNodes,
    {
        "count": "nodes are counted by launch",
        "placements": "what a node carries is judged by its placement classes and its load",
        "gang_key": "gangs are counted by workload",
        "relaxed": "what preferences were given up is said and not judged",
    },
)
# The requests to an existing node; its labels, as far as any workload requires something of them, and its taints stand
# beside these.
_SITED_ALIKE: Final = Likeness(
    Node,
    {
        "claim_id": "it names the node",
        "node_class_name": "an existing node is not launched again",
        "instance_type": "what it is, its labels say",
        "zone": "where it is, its labels say",
        "zone_id": "where it is, its labels say",
        "labels": "stand beside, as far as somebody asks",
        "allocatable": "room is summed by node",
        "used": "room is summed by node",
        "placements": "who is there already is counted by node",
        "reservation_id": "units are counted by reservation",
        "price_atto_usd_per_hour": "it is paid for already",
        "created_at": "no rule asks how old a node is",
        "leaves_at": "whether work would get its notice too early is checked for each node",
        "deleting": "a node that goes is no host",
        "leaving": "who was withdrawn and is still there counts for its team alone",
    },
)


@dataclass(slots=True, eq=False)
class Site:
    """What many nodes have in common: all that decides which replicas may be there, except size and topology.

    ``undefined`` are keys that may be required although the node does not define them: none on a node that exists
    (R-13). ``labels`` are those with one value; of existing nodes, like ``description``, only those that some workload
    requires something of. ``fine``: placement classes whose replicas may be there; ``contents``: whether placement
    classes may meet.
    """

    pool: NodePool | None
    description: Requirements
    taints: tuple[Taint, ...]
    undefined: frozenset[str]
    labels: Mapping[str, str]
    fine: int = 0
    contents: dict[int, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LaunchClass:
    """Launches that differ only in number and in what their nodes carry: there are few, so each is checked once.

    ``site`` is what the nodes will be; None where a name is wrong or the pool does not allow it. ``room`` is what a
    node has for replicas, packed; ``least`` is the room that every result has: the offering itself or one of the
    alternatives, which are ``listed`` if there are any. ``is_wide``: one of them is in another zone. ``fine``:
    placement classes that were together on such a node without a violation; except for size and zones, others will have
    none either.
    """

    launch: PlannedNodes  # one of them
    site: Site | None
    allocatable: Resources
    room: int
    least: int
    listed: Listed | None
    is_wide: bool
    fine: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Host:
    """``nodes`` equal nodes of the final state: one existing node, or one group of planned ones.

    ``running``: replicas from before the plan; ``placed``: replicas that the plan adds; both per node. ``labels`` are
    those with one value. Either ``planned`` and ``launch_class`` or ``node`` is set. ``name`` is unique.
    """

    name: str
    nodes: int
    running: Mapping[str, int]
    placed: Mapping[str, int]
    labels: Mapping[str, str]
    pool: NodePool | None
    planned: PlannedNodes | None = None
    launch_class: LaunchClass | None = None
    node: Node | None = None

    @property
    def pool_name(self) -> str:
        """The NodePool that it is of, also where that is not there any more."""
        if self.node is not None:
            return self.node.node_pool_name
        return "" if self.pool is None else self.pool.name

    @property
    def allocatable(self) -> Resources:
        """What a node has for replicas when it is empty."""
        if self.launch_class is not None:
            return self.launch_class.allocatable
        return _NOTHING if self.node is None else self.node.allocatable

    @property
    def subject(self) -> str:
        """What messages call the host."""
        if self.planned is None:
            return self.name
        return f"{self.name} ({in_words(self.planned.offering)})"

    @property
    def capacity_type(self) -> CapacityType:
        """The market it is on."""
        if self.planned is not None:
            return self.planned.offering.capacity_type
        assert self.node is not None
        return self.node.capacity_type

    @property
    def is_bought(self) -> bool:
        """Whether it is planned outside all reservations."""
        return self.planned is not None and self.planned.offering.reservation_id is None

    @property
    def used(self) -> Resources:
        """What was taken before the plan, per node. Replicas count as pods even where ``used`` does not list them."""
        if self.node is None:
            return _NOTHING
        pods = max(self.node.used[PODS], sum(self.running.values()))
        return Resources.of({**self.node.used, PODS: pods})

    @property
    def block_drain(self) -> BlockDrain | None:
        """How an existing node drains at the end of the block under it."""
        return None if self.node is None else self.node.block_drain


def tallied(placements: Sequence[PlacedReplicas]) -> dict[str, int]:
    """Count replicas by workload."""
    counts = {placed.workload_key: placed.count for placed in placements}
    if len(counts) == len(placements):
        return counts  # nearly always, and there may be thousands of nodes
    counts = {}
    for placed in placements:
        counts[placed.workload_key] = counts.get(placed.workload_key, 0) + placed.count
    return counts


class Facts(OfferingFacts):
    """Everything that the checks look up about one snapshot and one plan."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
    ) -> None:
        super().__init__(snapshot, plan, now, policy)
        self._sites: dict[tuple[str, int], list[tuple[Mapping[str, str], Site | None]]] = {}
        self._existing_sites: dict[Hashable, Site] = {}
        self._site_of: dict[str, Site] = {}  # by existing node
        self._asked: dict[tuple[str, ...], Sequence[str]] = {}

    @cached_property
    def contents(self) -> Sequence[Mapping[str, int]]:
        """What each launch of the plan carries on one of its nodes: replicas by workload."""
        return [tallied(launch.placements) for launch in self.plan.launches]

    @cached_property
    def hosts(self) -> Sequence[Host]:
        """The final state: existing nodes that stay, then planned ones. Launches with a wrong name are left out."""
        known = {host.node.claim_id: host for host in self.changed if host.node is not None}
        existing = [
            known.get(node.claim_id) or self._existing_host(node, {})
            for node in self.snapshot.nodes
        ]
        planned = [host for host in self.changed if host.node is None]
        return [host for host in (*existing, *planned) if host is not None]

    @cached_property
    def changed(self) -> Sequence[Host]:
        """The hosts that the plan adds to; of thousands of existing nodes they are few."""
        added: dict[str, Counter[str]] = {}
        for placement in self.plan.existing:
            added.setdefault(placement.claim_id, Counter()).update(
                tallied(placement.placements)
            )
        known = [
            (self.nodes[name], content)
            for name, content in added.items()
            if name in self.nodes
        ]
        existing = [self._existing_host(node, content) for node, content in known]
        parts = enumerate(
            zip(self.plan.launches, self.launch_classes, self.contents, strict=True)
        )
        planned = [self._planned_host(index, *part) for index, part in parts]
        return [host for host in (*existing, *planned) if host is not None]

    def _existing_host(self, node: Node, added: Mapping[str, int]) -> Host | None:
        if node.deleting:
            return None
        running = tallied(node.placements) if node.placements else _NOBODY
        pool = self.pools.get(node.node_pool_name)
        return Host(
            f"node {node.claim_id}", 1, running, added, node.labels, pool, node=node
        )

    def _planned_host(
        self,
        index: int,
        launch: PlannedNodes,
        launch_class: LaunchClass,
        content: Mapping[str, int],
    ) -> Host | None:
        site = launch_class.site
        if site is None:
            return None
        # Thousands of them: to pass arguments by name takes as long again.
        return Host(
            f"launch {index}",
            launch.count,
            _NOBODY,
            content,
            site.labels,
            site.pool,
            launch,
            launch_class,
        )

    @cached_property
    def launch_classes(self) -> tuple[LaunchClass, ...]:
        """The class to which each launch of the plan belongs."""
        found: list[LaunchClass] = []
        numbers = _LAUNCHED_ALIKE.numbers(self.plan.launches)
        for number, launch in zip(numbers, self.plan.launches, strict=True):
            if number == len(found):
                found.append(self._launch_class(launch))
        return tuple([found[number] for number in numbers])

    def _launch_class(self, launch: PlannedNodes) -> LaunchClass:
        pool, site = self.pools.get(launch.node_pool_name), self._planned_site(launch)
        name, allocatable = launch.offering.instance_type, _NOTHING
        if pool is not None and name in self.types:
            allocatable = self.launched_as(pool, name).allocatable
        room = self.packing.room(self.by_name(allocatable))
        if site is None or pool is None or not launch.alternatives:
            return LaunchClass(launch, site, allocatable, room, room, None, is_wide=False)
        listed, least = self.listed(pool, launch), room
        if listed.problem is None:
            pairs = zip(self.by_name(allocatable), listed.least, strict=True)
            least = self.packing.room(min(pair) for pair in pairs)
        is_wide = not listed.zone_ids <= {launch.offering.zone_id}
        return LaunchClass(launch, site, allocatable, room, least, listed, is_wide)

    def _planned_site(self, launch: PlannedNodes) -> Site | None:
        sites = self._sites.setdefault(
            (launch.node_pool_name, self.offering_numbers.of(launch.offering)), []
        )
        for chosen, site in sites:
            if chosen == launch.labels:
                return site
        site = self._found_site(launch)
        sites.append((launch.labels, site))
        return site

    def _found_site(self, launch: PlannedNodes) -> Site | None:
        pool = self.pools.get(launch.node_pool_name)
        if (
            pool is None
            or pool.node_class_name not in self.classes
            or not self._is_known(launch.offering)
        ):
            return None
        described = self.description(pool, launch.offering)
        if described is None:
            return None
        known = described.labels()
        # What the labels say that the description does not: usually nothing.
        said = launch.labels.items() - known.items()
        chosen = {key: value for key, value in said if key in described}
        description = described.merged(Requirements.from_labels(chosen))
        taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
        return Site(
            pool,
            description,
            taints,
            labels.WELL_KNOWN,
            description.labels() if chosen else known,
        )

    def _is_known(self, key: OfferingKey) -> bool:
        return key.instance_type in self.types and (
            key.reservation_id is None or key.reservation_id in self.reservations
        )

    def hosting_types(self, pool: NodePool, launch: PlannedNodes) -> set[str]:
        """Return the types with something to launch that could carry what the launch carries."""
        placed = tallied(launch.placements)
        load = self.load(placed)
        carried = [self.workloads[key] for key in placed if key in self.workloads]
        hosting: set[str] = set()
        for key in self.open_offerings(pool):
            if not load.fits_in(self.launched_as(pool, key.instance_type).allocatable):
                continue
            if all(
                self.accepts(pool, key.instance_type, (place_of(key),), workload)
                for workload in carried
            ):
                hosting.add(key.instance_type)
        return hosting

    # -- one node

    def site(self, host: Host) -> Site:
        """Return what the nodes of a host are."""
        if host.launch_class is not None:
            assert host.launch_class.site is not None, (
                "no host is made of a launch that names what is not there"
            )
            return host.launch_class.site
        assert host.node is not None
        known = self._site_of.get(host.node.claim_id)
        if known is None:
            known = self._site_of[host.node.claim_id] = self._existing_site(host.node)
        return known

    def _existing_site(self, node: Node) -> Site:
        """Return the description of a node as far as any workload asks for it: few nodes differ in that."""
        keys = tuple(node.labels)
        asked = self._asked.get(keys)
        if asked is None:
            asked = self._asked[keys] = [
                key for key in keys if labels.stable_key(key) in self.required_keys
            ]
        said = {key: node.labels[key] for key in asked}
        about = (_SITED_ALIKE.key(node), *said.items())
        site = self._existing_sites.get(about)
        if site is None:
            pool = self.pools.get(node.node_pool_name)
            startup = () if pool is None else pool.startup_taints
            taints = binding_taints(node.taints, startup, initialized=node.initialized)
            site = Site(pool, Requirements.from_labels(said), taints, frozenset(), said)
            self._existing_sites[about] = site
        return site

    def room(self, host: Host) -> int:
        """Return what a node has for the replicas that the plan adds, packed."""
        if host.launch_class is not None:
            return host.launch_class.room
        amounts = zip(self.by_name(host.allocatable), self.by_name(host.used), strict=True)
        return self.packing.room(whole - taken for whole, taken in amounts)

    def may_meet(self, site: Site, keys: Iterable[str], classes: int) -> bool:
        """Whether one node of the site can meet the requirements of all these workloads, of these classes, at once."""
        known = site.contents.get(classes)
        if known is None:
            known = site.contents[classes] = self.together(
                site.description, site.undefined, keys
            )
        return known

    def together(
        self, description: Requirements, undefined: frozenset[str], keys: Iterable[str]
    ) -> bool:
        """Whether one node can meet the requirements of all these workloads at once, with some term of each."""
        # Hundreds of workloads may share a node, but few differ in what they require.
        terms = tuple(dict.fromkeys(self.terms(self.workloads[key]) for key in keys))
        return _can_meet_all(description, undefined, terms)

    def meets(
        self, description: Requirements, undefined: frozenset[str], workload: Workload
    ) -> bool:
        """Whether such a node meets the requirements of this workload alone."""
        return any(description.admits(term, undefined) for term in self.terms(workload))

    def tolerates(self, taints: Iterable[Taint], workload: Workload) -> bool:
        """Whether the workload tolerates all taints; PreferNoSchedule is a preference and never a violation (R-47)."""
        hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
        return tolerates_all(hard, workload.tolerations) is None


def _can_meet_all(
    description: Requirements,
    undefined: frozenset[str],
    terms: Sequence[tuple[Requirements, ...]],
) -> bool:
    if not terms:
        return True
    rest = terms[1:]
    return any(
        description.admits(term, undefined)
        and (not rest or _can_meet_all(description.merged(term), undefined, rest))
        for term in terms[0]
    )
