"""The model of launches says what the code does: its plays are played on it, with equal rows after each step."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.fakes.messaging import MemoryBus, MemoryQueue
from lab.formal import spin
from lab.worlds.launch_world import World, reserved
from reservoir.core.model.node_claim import ClaimState, LeaseState, NodeClaim
from reservoir.ports.messaging import LaunchBatch
from reservoir.ports.state import ConflictError
from reservoir.usecases.claims.claim_moves import return_all_replicas
from reservoir.usecases.discovery.observe_reservation import ReservationObserver
from reservoir.usecases.launching.launch import LaunchReport
from tests.formal.turns import Run, Stopping

PLAYS = 40
CLAIMS = (0, 1)
# a replay window is shorter, and two of them are longer than the age of adoption
TICK_S = 290
TOKEN_LIFETIME_S = 400
STATES = [
    None,
    *(
        ClaimState(name)
        for name in ("planned", "launching", "launched", "failed", "terminated")
    ),
]
LEASES = [None, *(LeaseState(name) for name in ("held", "settled", "absorbed", "returned"))]


class Launches:
    """One reservation with one unit, and what the model does with it."""

    def __init__(self) -> None:
        self.world = World(token_lifetime_s=TOKEN_LIFETIME_S)
        self.world.add_reservation(total_count=1, available_count=1)
        self.world.add_workload(replicas=10)
        self.batches = [
            LaunchBatch(f"b-{claim}", (f"b-{claim}-nc-0000",)) for claim in CLAIMS
        ]
        self.queued = [0, 0]
        self.runs: dict[int, tuple[int, Run]] = {}
        self.observation: Run | None = None

    def claim(self, number: int) -> NodeClaim | None:
        return self.world.state.claim_rows.get(self.batches[number].claim_ids[0])

    # --- planners

    def plan(self, number: int) -> None:
        assert (
            self.world.plan(1, reserved(), batch_id=f"b-{number}") == self.batches[number]
        )

    def refuse(self, number: int) -> None:
        with pytest.raises(ConflictError):
            self.plan(number)

    def send(self, number: int) -> None:
        self.queued[number] += 1

    double = send

    def give_back(self, number: int) -> None:
        claim = self.claim(number)
        assert claim is not None

        def failed(it: NodeClaim) -> NodeClaim | None:
            return (
                replace(it, state=ClaimState.FAILED)
                if it.state is ClaimState.PLANNED
                else None
            )

        now = self.world.clock.now()
        assert (
            return_all_replicas(self.world.state.node_claims, claim, now, failed)
            is not None
        )

    # --- launches

    def deliver(self, launcher: int, number: int) -> None:
        self.queued[number] -= 1
        self.runs[launcher] = number, Run(self._launch(self.batches[number]))

    def _launch(self, batch: LaunchBatch) -> Callable[[], LaunchReport]:
        use_case = self.world.launch()
        claims = Stopping(use_case.claims, {"save", "save_many", "settle"})
        stopping = replace(
            use_case,
            claims=claims,
            outcomes=replace(use_case.outcomes, claims=claims),
            attempts=Stopping(use_case.attempts, {"begin", "resolve", "complete"}),
            fleet=Stopping(use_case.fleet, {"launch"}),
            queue=Stopping(MemoryQueue(), {"send_launches"}),
        )
        return lambda: stopping.run(batch)

    def _step(self, launcher: int, *effects: str) -> None:
        self.runs[launcher][1].step(*effects)

    def begin(self, launcher: int) -> None:
        self._step(launcher, "begin")

    def mark(self, launcher: int) -> None:
        self._step(launcher, "save_many", "save")

    def ask(self, launcher: int) -> None:
        self._step(launcher, "launch")

    def resolve(self, launcher: int) -> None:
        self._step(launcher, "resolve")

    def settle(self, launcher: int) -> None:
        self._step(launcher, "save_many", "settle")

    def complete(self, launcher: int) -> None:
        before = dict(self.world.state.claim_rows)
        # of a claim that another run has settled since this one marked it
        if self.runs[launcher][1].at == "save_many":
            self._step(launcher, "save_many")
            assert self.world.state.claim_rows == before, "its revision refuses that"
        self._step(launcher, "complete")

    def send_again(self, launcher: int) -> None:
        self._step(launcher, "send_launches")
        self.queued[self.runs[launcher][0]] += 1

    def ack(self, launcher: int) -> None:
        assert self.runs.pop(launcher)[1].at is None

    def die(self, launcher: int) -> None:
        number, run = self.runs.pop(launcher)
        run.die()
        self.queued[number] += 1

    # --- observations

    def observe(self, free: int) -> None:
        state = self.world.state
        shown = replace(self.world.ec2.reservations["cr-1"], available_count=free)
        observer = ReservationObserver(
            Stopping(state.reservations, {"save_observation"}),
            state.node_claims,
            MemoryBus(),
        )
        before, now = state.reservations.get("cr-1"), self.world.clock.now()
        self.observation = Run(lambda: observer.observe(before, shown, now))

    def save(self, _: int) -> None:
        assert self.observation is not None
        # claims that moved on are left out of the next try
        while self.observation.at is not None:
            self.observation.step("save_observation")

    # --- what else happens

    def count(self, _: int) -> None:
        """What EC2 counts is told by the model, with each observation."""

    def end(self, number: int) -> None:
        claim = self.claim(number)
        assert claim is not None
        assert claim.instance_id is not None
        self.world.ec2.change(claim.instance_id, state="terminated")
        now = self.world.clock.now()

        def ended(it: NodeClaim) -> NodeClaim:
            return replace(it, state=ClaimState.TERMINATED, terminated_at=now)

        assert (
            return_all_replicas(self.world.state.node_claims, claim, now, ended) is not None
        )

    def tick(self) -> None:
        self.world.clock.advance(seconds=TICK_S)

    # --- what is stored

    def state(self) -> dict[str, tuple[int, ...]]:
        claims = [self.claim(number) for number in CLAIMS]
        attempts = [self.world.attempts.rows.get(f"b-{number}") for number in CLAIMS]
        outcomes = [
            attempt.outcome if attempt is not None else None for attempt in attempts
        ]
        record = self.world.state.reservation_rows["cr-1"]
        live = [instance.batch_id for instance in self.world.ec2.live()]
        leases = [
            None if claim is None or claim.lease is None else claim.lease.state
            for claim in claims
        ]
        return {
            "state": tuple(
                STATES.index(None if claim is None else claim.state) for claim in claims
            ),
            "lease": tuple(map(LEASES.index, leases)),
            "marked": tuple(0 if claim is None else claim.attempt for claim in claims),
            "number": tuple(
                0 if attempt is None else attempt.number for attempt in attempts
            ),
            "outcome": tuple(
                0 if it is None else 1 if it.instances else 2 for it in outcomes
            ),
            "completed": tuple(
                int(attempt is not None and attempt.completed) for attempt in attempts
            ),
            "balance": (record.balance.available_count, record.balance.outstanding_count),
            "queued": tuple(self.queued),
            "running": tuple(live.count(f"b-{number}") for number in CLAIMS),
        }


def test_launches_leases_and_observations_are_what_the_model_says() -> None:
    names: set[str] = set()
    for seed in range(PLAYS):
        launches = Launches()
        for number, step in enumerate(
            spin.play("launch.pml", ("DOUBLES=2", "DEATHS=2"), seed)
        ):
            launches.world.clock.advance(milliseconds=1)
            getattr(launches, step.name)(*step.arguments)
            assert launches.state() == step.state, (
                f"seed {seed}, step {number}: {step.name} {step.arguments}"
            )
            names.add(step.name)
    effects = {
        "begin",
        "mark",
        "ask",
        "resolve",
        "settle",
        "complete",
        "send_again",
        "ack",
        "die",
        "observe",
        "save",
    }
    assert names >= {*effects, "plan", "refuse", "give_back", "deliver", "double", "tick"}
