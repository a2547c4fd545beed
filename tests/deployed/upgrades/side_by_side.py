"""``python -m tests.deployed.upgrades.side_by_side``: functions of two releases side by side, on one fleet, from seeds.

Again and again functions are given the code of a drawn release, while workloads come, go and change, nodes are drained
by hand, the reservation shrinks and grows, messages come twice, and functions die. Then mishaps stop, everything is
this release's, and what must be so is looked up where the truth is: in EC2, in the tables, and on the bus.

The seed draws what is done. How what is done meets, processes decide that run side by side: a seed that failed may
hold the next time.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from infra.naming import function_name
from lab.embedded.reservoir import DeployedReservoir
from lab.story.world import World
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.core.model.node_claim import DrainReason, NodeClaim
from reservoir.names import DEPLOYMENT, Function, Table
from tests.deployed.upgrades.releases import (
    NAMESPACE,
    UNITS,
    Fleet,
    assembly_for_both,
    code_of,
    functions_of,
)
from tests.test_tidy import ROOT
from tests.upgrades.conftest import PREVIOUS, archive_of, unpack

ROUNDS: Final = 8
# Seconds between two rounds: what is under way, a pass, a few passes; a launch that died comes back after six minutes.
PAUSES_S: Final = (1, 5, 20, 60, 150)
SIZES: Final = ("6", "3")  # vCPUs of replicas: one or two share a node
REPLICAS_MAX: Final = 4
# Functions whose deaths are played, each as often as it stands here: launches and plans have most to lose.
MORTAL: Final = (
    *(Function.LAUNCH, Function.LAUNCH, Function.PROVISION, Function.PROVISION),
    *(Function.INTAKE, Function.REACT, Function.EXPIRE, Function.DISRUPT, Function.COLLECT),
)
# a function dies at one of its first calls; passes make ten to twenty
CALLS_MAX: Final = 12
SETTLING: Final = timedelta(minutes=16)  # sweeps, passes and a round of the collector
LOOKS_MAX: Final = 20


@dataclass
class Play:
    """One seed, on a fleet of which nothing is wanted yet."""

    fleet: Fleet
    seed: int
    both: Sequence[Function]  # functions that both releases have
    did: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    mishaps: int = 0  # deaths and lost answers that came about
    _random: Random = field(init=False)
    # drains that had been told, and instances that had been met
    _before: tuple[int, int] = (0, 0)
    _generations: Counter[str] = field(default_factory=Counter)
    _sizes: dict[str, str] = field(default_factory=dict)
    _sent: list[dict[str, Any]] = field(default_factory=list)
    _runs: dict[Function, str] = field(default_factory=dict)
    _taken_back: int = 0  # replicas that were wanted before
    _drained: set[str] = field(default_factory=set)  # claims, by hand

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311 - a play, no secret

    def play(self) -> list[str]:
        """Play the seed; return what is wrong at its end, with what was done if anything is."""
        self._begin()
        for _ in range(ROUNDS):
            steps = [self._put] * 2 + self._random.choices(
                [
                    self._submit,
                    self._resize,
                    self._withdraw,
                    self._repeat,
                    self._drain,
                    self._resize_units,
                    self._kill,
                ],
                [4, 3, 1, 1, 1, 1, 4],
                k=3,
            )
            self._random.shuffle(steps)
            for step in steps:
                step()
            pause_s = self._random.choice(PAUSES_S)
            self._note(f"{pause_s} s")
            self.fleet.world.aws.clock.advance(timedelta(seconds=pause_s))
            self.fleet.world.look()
        self._end()
        return [*self.wrong, "it did: " + ", ".join(self.did)] if self.wrong else []

    # --- what is done

    def _begin(self) -> None:
        self._before = (
            len(self.fleet.world.events("Node Draining")),
            len(self.fleet.world.seen.met),
        )
        self._runs = dict.fromkeys(self.both, "new")
        for function in self.both:  # an upgrade begins with everything old
            self._run(function, "old")
        self._submit()

    def _note(self, what: str) -> None:
        self.did.append(what)

    def _run(self, function: Function, release: str) -> None:
        if self._runs[function] != release:
            self.fleet.run_by(release, [function])
            self._runs[function] = release
            self._note(f"{function} {release}")

    def _put(self) -> None:
        for function in self._random.sample(self.both, self._random.randint(1, 3)):
            self._run(function, self._random.choice(("old", "new")))

    def _submit(self) -> None:
        name = f"seed-{self.seed}-{len(self._generations)}"
        self._sizes[name] = self._random.choice(SIZES)
        self._ask(name, self._random.randint(1, REPLICAS_MAX))

    def _resize(self) -> None:
        if self.fleet.wanted:
            self._ask(
                self._random.choice(sorted(self.fleet.wanted)),
                self._random.randint(0, REPLICAS_MAX),
            )

    def _ask(self, name: str, replicas: int) -> None:
        self._generations[name] += 1
        self._taken_back += max(0, self.fleet.wanted.get(name, 0) - replicas)
        sent = self.fleet.submit(name, replicas, self._generations[name], self._sizes[name])
        self._sent_as(sent, f"{name} x {replicas}")

    def _withdraw(self) -> None:
        if self.fleet.wanted:
            name = self._random.choice(sorted(self.fleet.wanted))
            self._taken_back += self.fleet.wanted[name]
            self._sent_as(
                self.fleet.withdraw(name, self._generations[name]), f"withdraw {name}"
            )

    def _sent_as(self, message: dict[str, Any], what: str) -> None:
        self._sent.append(message)
        self._note(what)

    def _repeat(self) -> None:
        """Send a message again that was sent before; it may be outdated by now."""
        message = self._random.choice(self._sent)
        self.fleet.world.send(message)
        self._note(f"again {message['action']} {message['workload']['metadata']['name']}")

    def _drain(self) -> None:
        running = {it.id for it in self.fleet.world.seen.live("running")}
        claims = sorted(
            claim.id
            for claim in self._claims()
            if claim.instance_id in running and claim.drain is None
        )
        if claims:
            claim = self._random.choice(claims)
            done = self.fleet.world.command("drain", claim, "--reason", "story", "--yes")
            self._drained.add(claim)
            self._note(f"drain {claim} ({done.returncode})")

    def _resize_units(self) -> None:
        count = self._random.randint(1, UNITS + 1)
        ec2 = self.fleet.world.aws.client("ec2")
        ec2.modify_capacity_reservation(
            CapacityReservationId=self.fleet.reservation, InstanceCount=count
        )
        self._note(f"{count} units")

    def _kill(self) -> None:
        function, call = self._random.choice(MORTAL), self._random.randrange(CALLS_MAX)
        action, moment = self._random.choice(
            (("kill", "before"), ("kill", "after"), ("lose", "before"))
        )
        name = function_name(self.fleet.world.output(DEPLOYMENT), function)
        self.fleet.world.aws.fault(action, function=name, skip=call, moment=moment)
        self._note(f"{action} {function} {moment} {call}")

    # --- how it ends

    def _end(self) -> None:
        """Let mishaps stop and everything be new, and look; then take everything back, and look again."""
        world = self.fleet.world
        self.mishaps = sum(rule["hits"] for rule in world.aws.faults())
        world.aws.clear_faults()
        for function in self.both:
            self._run(function, "new")
        self._come_about()
        self._look()
        for name in sorted(self.fleet.wanted):
            self._taken_back += self.fleet.wanted[name]
            self.fleet.withdraw(name, self._generations[name])
        self._come_about()
        self._look()

    def _come_about(self) -> None:
        """Let time pass until everything is as it is wanted."""
        clock = self.fleet.world.aws.clock
        clock.advance(SETTLING, coalesce=True)
        for _ in range(LOOKS_MAX):
            if not list(self._missing()):
                return
            clock.advance(timedelta(minutes=1))
        self.wrong += [f"never: {what}" for what in self._missing()]

    def _missing(self) -> Iterator[str]:
        """Yield what has not come about."""
        stores = self._stores()
        claims, instances = self._claims(), self.fleet.world.look().live("running")
        if {it.instance_id for it in claims} != {
            it.id for it in self.fleet.world.seen.live()
        }:
            yield f"claims {[(it.id, it.state, it.instance_id) for it in claims]} are not what runs: {instances}"
        placed = Counter(
            {it.workload_key: 0 for claim in claims for it in claim.placements}
        )
        for claim in claims:
            placed.update({it.workload_key: it.count for it in claim.placements})
            if claim.drain is not None or claim.instance_id is None:
                yield f"{claim.id} is {claim.state}, drains: {claim.drain}"
        wanted = {
            f"{NAMESPACE}/{name}": count
            for name, count in self.fleet.wanted.items()
            if count
        }
        if dict(+placed) != wanted:
            yield f"placed {dict(placed)}, wanted {wanted}"
        records = stores.workloads.get_many(
            [f"{NAMESPACE}/{name}" for name in self._generations]
        )
        for key, record in records.items():
            if (record.placed_count, record.open_count) != (wanted.get(key, 0), 0):
                yield f"{key} counts {record.placed_count} placed, {record.open_count} open of {wanted.get(key, 0)}"
        held = stores.reservations.get(self.fleet.reservation)
        if held is None or held.balance.outstanding_count:
            yield f"leases are outstanding: {held}"

    def _look(self) -> None:
        """Note what should never have been."""
        seen = self.fleet.world.seen
        drains, met = self._before
        self.wrong += [f"{it} was beyond its count" for it in seen.over_count]
        unseen = seen.entered.keys() - seen.met.keys()
        if unseen:
            self.wrong.append(f"instances that nobody looked at: {sorted(unseen)}")
        launched = list(seen.met.values())[met:]
        twice = [
            claim
            for claim, count in Counter(it.claim_id for it in launched).items()
            if count > 1
        ]
        if twice:
            self.wrong.append(f"launched twice: {twice} in {launched}")
        told = {
            event["drainId"]: event
            for event in self.fleet.world.events("Node Draining")[drains:]
        }
        why = Counter(event["reason"] for event in told.values())
        if set(why) - {DrainReason.WITHDRAWN, DrainReason.EMPTY, DrainReason.REQUESTED}:
            self.wrong.append(f"drained for another reason: {list(told.values())}")
        if why[DrainReason.WITHDRAWN] > self._taken_back:
            self.wrong.append(
                f"{self._taken_back} replicas were taken back, and drained: {list(told.values())}"
            )
        by_hand = {
            e["node"]["nodeClaim"]
            for e in told.values()
            if e["reason"] == DrainReason.REQUESTED
        }
        if by_hand - self._drained:
            self.wrong.append(f"nobody asked to drain {by_hand - self._drained}")
        drained = {event["node"]["nodeClaim"] for event in told.values()}
        ended = {it.claim_id for it in launched} - {it.claim_id for it in seen.live()}
        if ended - drained:
            self.wrong.append(f"ended without a drain: {ended - drained}")
        in_units = Counter(
            claim.offering.reservation_id
            for claim in self._claims()
            if claim.lease is not None
        )
        units = {it.id: it.total_count for it in seen.reservations}
        self.wrong += [
            f"{count} claims on {it}"
            for it, count in in_units.items()
            if it and count > units[it]
        ]
        self.wrong += self.fleet.dead_letters()

    def _claims(self) -> tuple[NodeClaim, ...]:
        return self._stores().node_claims.list_live()

    def _stores(self) -> "Stores":
        return Stores(self.fleet.world)


class Stores:
    """The tables, read as this release reads them."""

    def __init__(self, world: World) -> None:
        dynamodb = world.aws.client("dynamodb")
        tables = {
            table: world.output(table)
            for table in (Table.NODE_CLAIMS, Table.RESERVATIONS, Table.WORKLOADS)
        }
        self.workloads = DynamoDbWorkloadStore(dynamodb, tables[Table.WORKLOADS], world)
        self.reservations = DynamoDbReservationStore(
            dynamodb, tables[Table.RESERVATIONS], tables[Table.NODE_CLAIMS], world
        )
        self.node_claims = DynamoDbNodeClaimStore(
            dynamodb,
            node_claims_table=tables[Table.NODE_CLAIMS],
            reservations_table=tables[Table.RESERVATIONS],
            workloads_table=tables[Table.WORKLOADS],
            clock=world,
        )


def two_releases(
    world: World, previous: Path, folder: Path
) -> tuple[Fleet, tuple[Function, ...]]:
    """Return a fleet that can be run by the release that lies there, and the functions that it has, too."""
    fleet = Fleet(world, {"old": code_of(previous), "new": code_of(ROOT)})
    fleet.make(folder)
    world.discover()
    return fleet, functions_of(previous)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play seeds, one after the other on one deployment; stop at the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.deployed.upgrades.side_by_side")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    asked = parser.parse_args(arguments)
    with (
        TemporaryDirectory() as name,
        DeployedReservoir(
            print, assembly=assembly_for_both(Path(name) / "both")
        ) as reservoir,
    ):
        previous = Path(name) / "previous"
        unpack(archive_of(ROOT, PREVIOUS), previous)
        fleet, both = two_releases(World(reservoir), previous, Path(name))
        for seed in range(asked.seed, asked.seed + asked.seeds):
            play = Play(fleet, seed, both)
            wrong = play.play()
            # A command prints.
            print(  # noqa: T201 - a command
                f"seed {seed} {'failed' if wrong else 'held'}, {play.mishaps} mishaps",
                flush=True,
            )
            if wrong:
                print("\n".join([*wrong, fleet.world.summary()]))  # noqa: T201 - what somebody who looks into it needs
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
