"""The simulated account with the stack in it: functions, queues, schedules, tables, EC2, and whoever acts on them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from infra.config import CONSUMERS, FUNCTIONS
from lab.fakes.discovery import MemoryInstanceTypes, MemoryNetwork, MemoryPrices
from lab.fakes.ec2 import FakeDryRuns
from lab.fakes.messaging import MemoryBus
from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.capacity_blocks import MemoryBlocks, MemoryBootFailures
from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.stores.discovery_turns import MemoryDiscoveryTurns
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.launches import MemoryLaunchAttempts
from lab.fakes.stores.safety import MemoryTableMarks, MemoryTallies
from lab.fakes.stores.state import MemoryWorkloads
from lab.fakes.system import SequentialIds
from lab.fakes.unit_moves import FakeUnitMover
from lab.fakes.unit_splits import FakeUnitSplitter
from lab.simulation.aws.bus import Detail, EventsIn, EventsOut
from lab.simulation.aws.ec2 import SimulatedEc2, SimulatedNetwork
from lab.simulation.aws.lambdas import CLOCK_WRONG_MAX, Environment, Lambdas, Run
from lab.simulation.aws.lender import SimulatedLender
from lab.simulation.aws.policy import SharedPolicyStore
from lab.simulation.aws.scheduler import Scheduler, Schedules
from lab.simulation.aws.sqs import Message, Queue, Sqs
from lab.simulation.aws.tables import SimulatedState
from lab.simulation.catalogue import (
    OFFERED,
    ON_DEMAND,
    SPOT,
    TEAM,
    TYPES,
    cheapest,
    node_class_manifest,
    node_pool_manifest,
)
from lab.simulation.faults import NO_FAULTS, Faults, drawn
from lab.simulation.kernel import HOUR, MINUTE, SECOND, Chance, Kernel, moment
from lab.simulation.old_release import Upgrade
from lab.simulation.people.agents import Agents
from lab.simulation.people.operators import ARN, Identities, Operators
from lab.simulation.people.outsiders import Outsiders
from lab.simulation.people.teams import namespaces_of, team_manifests
from lab.simulation.people.users import BOUND, CONTENDED, POOL, Users, Wanted
from lab.simulation.process import DEPLOYMENT, REJECTED, SETTINGS, UNPUBLISHED, process_of
from lab.simulation.restores import Restores, Tables
from lab.simulation.second_pool import second_pool
from lab.simulation.standing_pool import StandingPool
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.safety.endings import DEFAULT_BOUNDS, Bound, Bounds, EndingKind
from reservoir.core.safety.tally import Lift
from reservoir.core.sharing.planning_groups import PLANNED_AT_ONCE_MAX
from reservoir.manifests.answers.operations import parse_request
from reservoir.names import (
    LENDABLE_TAG,
    LENDABLE_VALUE,
    MOVABLE_TAG,
    MOVABLE_VALUE,
    PLANNING_MESSAGE_GROUP,
    Function,
)
from reservoir.names import Queue as QueueName
from reservoir.ports.policy import PolicyKind, PutPolicy
from reservoir.runtime.settings import Settings
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.safety.envelope import LiftEnvelope

# at which the class's on-demand nodes are launched, in some seeds
_GROUP: Final = "arn:aws:resource-groups:us-east-1:111122223333:group/reservoir-default"
_CAPACITY_TYPES: Final = (
    ("reserved", "on-demand"),
    ("reserved", "spot", "on-demand"),
    ("reserved", "spot", "on-demand"),
)
_DISRUPTIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "2m"},
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
    {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "1m",
        "budgets": [{"nodes": "1"}],
    },
    {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    },
)
_LIMITS: Final[tuple[Mapping[str, str], ...]] = ({}, {}, {}, {"cpu": "40"}, {"nodes": "4"})
# In looks at the clock, so that a plan is the same on any machine: most planners have no time to improve what they buy,
# and all have enough to place everything once. With half of that, what comes last found its turn in no pass.
_SOLVE_BUDGETS: Final = tuple(timedelta(seconds=each) for each in (20, 8, 8, 8))
_SOLVE_BUDGET_OF_TEAMS: Final = timedelta(seconds=160)
_TEMPLATES: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {},
    {"expireAfter": "30m"},
    {"terminationGracePeriod": "5m"},
)


class World:
    """One seed's world. ``watcher`` hears of everything that invariants look at."""

    coarseness = 1  # how much more seldom than in a deployment schedules run
    is_plain = False  # one team, one release, and nobody who operates it
    ec2_class: type[SimulatedEc2] = SimulatedEc2

    def __init__(
        self, seed: int, left_out: frozenset[tuple[str, int]] = frozenset()
    ) -> None:
        self.kernel = Kernel()
        self.chance = Chance(seed, left_out)
        self.drawn = drawn(self.chance.stream("faults"))
        self._now = NO_FAULTS
        self.watchers: list[Any] = []
        kernel, chance = self.kernel, self.chance
        self.state = SimulatedState(kernel, chance, self.faults, self._row_written)
        self.policy = SharedPolicyStore()
        self.tallies = MemoryTallies()
        self.marks = MemoryTableMarks()
        self.attempts = MemoryLaunchAttempts()
        self.sqs = Sqs(kernel, chance, self.faults)
        self.events = EventsIn(kernel, chance, self.faults, self._react, self._discover)
        self.scheduler = Scheduler(kernel, chance, self.faults, self._fire)
        self.ec2 = self.ec2_class(kernel, chance, self.faults, self.events.emit)
        self.users = Users(
            kernel, chance, lambda body: self.sqs.put(self.queues[QueueName.DEMAND], body)
        )
        self.users.busy = chance.between("setup", 0, 1) == 1
        self.users.changing = chance.between("changing", 0, 1) == 1
        self.users.takes_back = lambda: chance.hits("taken_back", self.faults().taken_back)
        self.agents = Agents(
            kernel, chance, lambda: self.state.claim_rows, self.instance, self._report
        )
        self.agents.are_there = chance.between("agents", 0, 2) == 0
        self.operators = Operators(
            kernel, chance, lambda: self.state.claim_rows, self._operate, (POOL,)
        )
        self.bounds = self._bounds()
        self.events_out = EventsOut(kernel, self._bus_refuses, self._heard, self._keep)
        self.history = MemoryHistory()
        self.keeps_history = chance.between("history", 0, 3) == 0
        self.outsiders = Outsiders(
            kernel, chance, self.faults, self.ec2, self.change_policy
        )
        if chance.between("setup", 0, 2) == 0:  # everybody wants the same units
            self.users.kinds = CONTENDED
            self.outsiders.types = ("m5.4xlarge",)
            self.users.busy = True
        self.queues = {name: self._queue(name) for name in QueueName}
        self.sqs.queues[REJECTED] = Queue(REJECTED, 0, 1)
        self.sqs.queues[UNPUBLISHED] = Queue(UNPUBLISHED, 0, 1_000)
        self.turns = MemoryDiscoveryTurns()
        self.restores = Restores(
            kernel,
            chance,
            lambda: chance.hits("restored", self.faults().restored),
            Tables(
                self.state, self.policy, self.attempts, self.tallies, self.turns, self.marks
            ),
            DEPLOYMENT,
            deploy=self._deploy,
            restored=self.users.send_what_was_sent,
            adopted=self.users.send_again,
        )
        keeps_concurrency = chance.between("setup", 0, 1) == 1
        is_upgraded = chance.between("upgrade", 0, 5) == 0 and not self.is_plain
        self._apply(self._perhaps_lending(self._node_class(is_upgraded), is_upgraded))
        self._apply(self._perhaps_warm(self._pool_manifest(), is_upgraded))
        self.teams: tuple[Team, ...] = ()
        if chance.between("teams", 0, 3) == 0 and not self.is_plain:
            for manifest in team_manifests(chance):
                self._apply(manifest)
            self.teams = policy_of(self.policy.list_all()).teams
            self.users.namespaces = namespaces_of(self.teams)
        self.has_two_pools = self._adds_pool()
        self.upgrade = Upgrade(kernel, chance, self._replace)
        self.upgrade.is_made = is_upgraded
        self.lambdas = Lambdas(
            kernel,
            chance,
            self.faults,
            partial(process_of, behind=self._behind()),
            self._called,
            self._ended,
            lambda function: function in self.upgrade.old,
            keeps_concurrency=keeps_concurrency,
        )
        self.standing = StandingPool(chance, self._put)
        if chance.between("stands", 0, 3) == 0 and not (
            self.is_plain or self.upgrade.is_made
        ):
            self.standing.begin()
        self.has_wrong_clocks = chance.between("clocks", 0, 9) == 0 and not self.is_plain
        self.schedules = Schedules(kernel, chance, self.faults)

    def faults(self) -> Faults:
        """Return the mishaps of this moment."""
        return self._now

    # --- setting up

    def _bounds(self) -> Bounds:
        if self.chance.between("bounds", 0, 5):
            return Bounds()
        # so narrow that they are met
        most = {kind: self.chance.between("bounds", 1, 3) for kind in EndingKind}
        return Bounds(
            {
                kind: Bound(0, most[kind], most[kind], DEFAULT_BOUNDS[kind].latches)
                for kind in most
            }
        )

    def _behind(self) -> dict[str, Any]:
        state = self.state
        return {
            "ids": SequentialIds(),
            "workloads": state.workloads,
            "reservations": state.reservations,
            "node_claims": state.node_claims,
            "offerings": state.offerings,
            "decisions": state.decisions,
            "policy": self.policy,
            "demand_census": MemoryDemandCensus(MemoryWorkloads(state), self.kernel),
            "discovery_turns": self.turns,
            "launch_attempts": self.attempts,
            "shortage_history": state.shortage_history,
            "accounts": MemoryAccounts(),
            "boot_failures": MemoryBootFailures(self.kernel),
            "tallies": self.tallies,
            "table_marks": self.marks,
            "sqs": self.sqs,
            "events": self.events_out,
            "history": self.history,
            "identities": Identities(),
            "settings": self._settings(),
            "scheduler": self.scheduler,
            "ec2": self.ec2,
            "dry_runs": FakeDryRuns(),
            "network": MemoryNetwork(),
            "unit_mover": FakeUnitMover(self.ec2),
            "unit_splitter": FakeUnitSplitter(self.ec2),
            "unit_lender": SimulatedLender(self.ec2, self.kernel),
            "capacity_blocks": MemoryBlocks(),
            "launch_environment": SimulatedNetwork(self.ec2),
            "instance_types": MemoryInstanceTypes(TYPES, OFFERED),
            "prices": MemoryPrices(ON_DEMAND, SPOT),
        }

    def _settings(self) -> Settings:
        """Return the settings of the functions; plans are solved several times where teams share, or of many kinds."""
        budget = _SOLVE_BUDGETS[self.chance.between("planner", 0, len(_SOLVE_BUDGETS) - 1)]
        # who changes their mind is of a kind of their own, looked at alone
        if self.teams or self.users.changing:
            budget = _SOLVE_BUDGET_OF_TEAMS
        # hands nearly all on, some, or nothing
        few = (0, 2, PLANNED_AT_ONCE_MAX)[self.chance.between("few", 0, 2)]
        return replace(
            SETTINGS,
            ending_bounds=self.bounds,
            solve_budget=budget,
            planned_at_once_max=few,
        )

    def _replace(self, function: Function) -> None:
        self.lambdas.replace(function)

    def _bus_refuses(self) -> bool:
        return self.chance.hits("bus_refuses", self.faults().bus_refuses)

    def kept_events(self, detail_type: str) -> Iterator[Detail]:
        """Yield the details of events of a type that the bus has refused and that are kept for it.

        What is published again is still among them while it is heard.
        """
        for message in self.sqs.queues[UNPUBLISHED].messages:
            for entry in json.loads(message.body):
                if entry["DetailType"] == detail_type:
                    yield json.loads(entry["Detail"])

    def _queue(self, name: QueueName) -> Queue:
        settings = FUNCTIONS[CONSUMERS[name]]
        queue = Queue(
            name.name,
            hidden_us=settings.hidden_timeouts * settings.timeout_s * SECOND,
            receives_max=settings.max_receive_count,
            fifo=name is QueueName.PLANNING,
        )
        queue.look = partial(self._poll, queue, CONSUMERS[name])
        self.sqs.queues[queue.name] = queue
        return queue

    def _apply(self, manifest: Mapping[str, Any]) -> None:
        kind, name = PolicyKind(manifest["kind"]), manifest["metadata"]["name"]
        self.policy.commit([PutPolicy(kind, name, manifest, 1, None)])

    def _put(self, manifest: Mapping[str, Any], generation: int) -> None:
        """Apply a pool that is changed again and again."""
        kind, name = PolicyKind(manifest["kind"]), manifest["metadata"]["name"]
        stored = self.policy.get(kind, name)
        self.policy.commit(
            [
                PutPolicy(
                    kind,
                    name,
                    manifest,
                    generation,
                    None if stored is None else stored.revision,
                )
            ]
        )

    def _node_class(self, is_upgraded: bool) -> dict[str, Any]:
        """Return the class; perhaps its on-demand nodes are launched at a group, and owners let units be split off."""
        # the release before does not know the field
        self.has_group = self.chance.between("group", 0, 3) == 0 and not (
            self.is_plain or is_upgraded
        )
        if not self.has_group:
            return node_class_manifest()
        self.outsiders.tags = {**TEAM, MOVABLE_TAG: MOVABLE_VALUE}
        # of which units can be split off; what everybody wants overflows
        self.outsiders.kinds, self.outsiders.count_min = (ReservationKind.DEFAULT,), 2
        self.outsiders.types, self.users.kinds = ("m5.4xlarge",), CONTENDED
        self.outsiders.grows = True
        return node_class_manifest(reclaimGroupARN=_GROUP)

    def _adds_pool(self) -> bool:
        """Perhaps add a pool that shares nothing: two planners side by side. Operators, who pause one, stay away."""
        if self.teams or self.is_plain or self.chance.between("planners", 0, 2):
            return False
        self.users.kinds = (*self.users.kinds, *BOUND)
        for manifest in second_pool(_DISRUPTIONS[0]):
            self._apply(manifest)
        return True

    def _pool_manifest(self) -> dict[str, Any]:
        def one_of(choices: tuple[Any, ...]) -> Any:
            return choices[self.chance.between("setup", 0, len(choices) - 1)]

        self.limits, disruption = one_of(_LIMITS), one_of(_DISRUPTIONS)
        self.budget = disruption.get("budgets", [{"nodes": "10%"}])[0]["nodes"]
        self.markets = _CAPACITY_TYPES[0] if self.has_group else one_of(_CAPACITY_TYPES)
        return node_pool_manifest(
            POOL, self.markets, disruption, self.limits, **one_of(_TEMPLATES)
        )

    def _perhaps_lending(
        self, node_class: dict[str, Any], is_upgraded: bool
    ) -> dict[str, Any]:
        """Return the class; perhaps it lends idle units, and owners let it."""
        # the release before does not know the field
        self.lends = self.chance.between("lends", 0, 4) == 0 and not (
            self.is_plain or is_upgraded
        )
        if not self.lends:
            return node_class
        tags = {**self.outsiders.tags, LENDABLE_TAG: LENDABLE_VALUE}
        self.outsiders.tags, self.outsiders.count_min = tags, 2
        lending = {"after": "1m", "keepFree": self.chance.between("lends", 0, 1)}
        return {**node_class, "spec": {**node_class["spec"], "lending": lending}}

    def _perhaps_warm(
        self, pool: Mapping[str, Any], is_upgraded: bool
    ) -> Mapping[str, Any]:
        """Return the pool; perhaps it keeps free units warm, all of them or one."""
        # the release before does not know the field; an invariant counts nodes, and limits do not count warm ones
        self.keeps_warm = self.chance.between("warms", 0, 2) == 0 and not (
            self.is_plain or is_upgraded or self.limits
        )
        if not self.keeps_warm:
            return pool
        count = ("All", 1)[self.chance.between("warms", 0, 1)]
        return {**pool, "spec": {**pool["spec"], "warmReserved": count}}

    def price_micro_usd(self, wanted: Wanted, count: int) -> int:
        """Return for how much an hour so many replicas surely get nodes of the pool."""
        team = by_namespace(self.teams).get(wanted.namespace)
        is_free = team is None or not team.resource_quotas
        with_spot = is_free and "spot" in self.markets and "fallback" not in wanted.spec
        return cheapest(wanted.spec["resources"]["requests"], count, with_spot=with_spot)

    def change_policy(self) -> None:
        """Let an operator change the pool's template: its nodes drift."""
        self.standing.change()
        stored = self.policy.get(PolicyKind.NODE_POOL, POOL)
        if stored is not None:
            manifest = json.loads(json.dumps(stored.manifest))
            manifest["spec"]["template"]["metadata"] = {
                "labels": {"generation": str(stored.generation)}
            }
            put = PutPolicy(
                stored.kind, stored.name, manifest, stored.generation + 1, stored.revision
            )
            self.policy.commit([put])

    def begin(self) -> None:
        """Let the new deployment find its feet without mishaps, then let everybody loose."""
        if self.has_wrong_clocks:  # minutes off, and set anew in the middle of runs
            self.lambdas.clock_off_max_us = CLOCK_WRONG_MAX
            self.drawn = replace(
                self.drawn, clock_off=Faults().clock_off, clock_jumps=Faults().clock_jumps
            )
        self.outsiders.begin()
        for function in (
            Function.DISCOVER_OFFERINGS,
            Function.DISCOVER_RESERVATIONS,
            Function.COLLECT,
        ):
            ended = list[Run]()
            while not ended or ended[-1].outcome != "done":  # what died is deployed again
                self.lambdas.invoke(function, {"source": "aws.events"}, ended.append)
                while self.lambdas.running:
                    self.kernel.step()
        self._now = self.drawn
        self.upgrade.begin()
        for function, settings in FUNCTIONS.items():
            if (
                settings.every_min is not None
                and settings.every_min < 60
                and settings.queue is None
            ):
                fire = partial(self.lambdas.invoke_async, function)
                self.schedules.begin(function, fire, settings.every_min * self.coarseness)
        self.schedules.begin(Function.PROVISION, self._wake, self.coarseness)
        # never more seldom: what a day costs whom is written down when it is over
        if self.keeps_history:
            self.schedules.begin(
                Function.RECORD, self._sample, FUNCTIONS[Function.RECORD].every_min or 1
            )
        self.kernel.after(SECOND, self.users.act)
        if self.drawn.restored:
            self.kernel.after(MINUTE, self.restores.each_minute)
        if (
            self.chance.between("operators", 0, 2) == 0
            and not self.is_plain
            and not self.has_two_pools
        ):
            self.kernel.after(MINUTE, self.operators.act)

    def calm(self) -> None:
        """No mishaps from now on; nobody wants anything new; what waits in dead letters is sent again."""
        self._now = NO_FAULTS
        self.schedules.stopped_until.clear()
        self.lambdas.set_clocks()
        self.users.resting = self.agents.resting = True
        self.upgrade.finish()
        self.operators.go_home()
        self.restores.adopt()
        self._lift_envelope()
        self.outsiders.rest()
        for queue in self.queues.values():
            dead, queue.dead = queue.dead, []
            for message in dead:
                self.sqs.put(queue, message.body, message.id, group=message.group)

    def _deploy(self) -> None:
        """Replace all functions; of units in use by instances that no claim has any more, EC2 tells with a delay."""
        self.lambdas.deploy()
        self.ec2.touched.update(self.ec2.reservations)

    def _lift_envelope(self) -> None:
        """Let an operator look at what is held, and let it go."""
        now = self.kernel.now()
        command = LiftEnvelope(self.tallies, MemoryBus())
        for kind in EndingKind:
            command.lift(
                kind, Lift(1000, now + timedelta(hours=6), ARN, "OPS-4: looked at it", now)
            )

    # --- what there is

    def instance(self, instance_id: str | None) -> Instance | None:
        """Return an instance as it is."""
        return self.ec2.truth(instance_id or "")

    def kept_count(self) -> int:
        """Return how many events the history has."""
        return sum(1 for _ in self.history.timeline(moment(0), moment(100 * HOUR)))

    def stop_planning_schedule(self) -> None:
        """Let the planner plan only when it is woken from now on."""
        self.schedules.stopped_until[Function.PROVISION] = self.kernel.now_us + 100 * HOUR

    def go_on_planning(self) -> None:
        """Let the planner's schedule fire again."""
        del self.schedules.stopped_until[Function.PROVISION]

    def is_forgotten(self, instance: Instance) -> bool:
        """Whether the tables may not know of an instance, because they were restored since."""
        adopted_at = self.restores.adopted_at
        return self.restores.is_unknown or (
            adopted_at is not None and instance.launched_at <= adopted_at
        )

    def is_launched(self, claim_id: str) -> bool:
        """Whether EC2 has been asked for the claim's instance already, and has it or not."""
        claim = self.state.claim_rows[claim_id]
        attempt = self.attempts.rows.get(claim.batch_id)
        return (
            attempt is not None
            and claim_id in attempt.claim_ids
            and self.ec2.knows(attempt.client_token)
        )

    # --- what feeds the functions

    def _wake(self, event: dict[str, Any]) -> None:
        self.sqs.put(
            self.queues[QueueName.PLANNING], json.dumps(event), group=PLANNING_MESSAGE_GROUP
        )

    def _sample(self, event: dict[str, Any]) -> None:
        self.sqs.put(self.queues[QueueName.HISTORY], json.dumps(event))

    def _keep(self, event: Detail) -> None:
        if self.keeps_history:
            self.sqs.put(self.queues[QueueName.HISTORY], json.dumps(event))

    def _report(self, body: str, sender: str) -> None:
        self.sqs.put(self.queues[QueueName.REPORTS], body, sender=sender)

    def _operate(self, request: dict[str, Any]) -> None:
        proof = {"signed": parse_request(request).digest(DEPLOYMENT)}
        self.lambdas.invoke_async(Function.OPERATE, {"request": request, "proof": proof})

    def _react(self, body: str) -> None:
        self.sqs.put(self.queues[QueueName.REACTIONS], body)

    def _discover(self, event: dict[str, Any]) -> None:
        self.lambdas.invoke_async(Function.DISCOVER_RESERVATIONS, event)

    def _fire(self, asked: str) -> None:
        self.lambdas.invoke_async(Function.EXPIRE, json.loads(asked))

    def _poll(self, queue: Queue, function: Function) -> None:
        while queue.messages and self.lambdas.has_room(function):
            taken = self.sqs.take(queue, FUNCTIONS[function].batch_size)
            if not taken:
                return
            records = [message.record() for message in taken]
            self.lambdas.invoke(
                function, {"Records": records}, partial(self._worked, queue, taken)
            )

    def _worked(self, queue: Queue, taken: Sequence[Message], run: Run) -> None:
        if run.outcome == "done":
            failed = {
                failure["itemIdentifier"] for failure in run.answer["batchItemFailures"]
            }
            self.sqs.delete(
                queue, [message.receipt for message in taken if message.id not in failed]
            )
        queue.look()

    # --- what is heard of

    def _row_written(self, key: str, before: Any, after: Any) -> None:
        for watcher in self.watchers:
            watcher.row_written(key, before, after)
        if isinstance(after, NodeClaim):
            self.agents.row_written(after)

    def _called(self, environment: Environment, point: str, answer: Any) -> None:
        for watcher in self.watchers:
            watcher.called(environment, point, answer)

    def _ended(self, run: Run) -> None:
        for watcher in self.watchers:
            watcher.ended(run)

    def _heard(self, detail_type: str, detail: Detail) -> None:
        for watcher in self.watchers:
            watcher.heard(detail_type, detail)
        self.users.hear(detail_type, detail)
