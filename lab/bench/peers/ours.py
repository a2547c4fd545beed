"""Our side: the functions' own handlers on the simulation's stand-ins, without mishaps, in the simulation's time.

Messages wait in queues, calls take 2 to 50 ms, sweeps come each minute, and the planner waits for a burst, all as
deployed; what functions compute takes no time. Workload systems answer a notice after ``LEAVES_AFTER_S``.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from lab.bench.peers.account import Account, Meter, market, play
from lab.bench.peers.borrowers import EagerBorrowers
from lab.bench.peers.trace import Job, Trace
from lab.fakes.discovery import MemoryInstanceTypes, MemoryPrices
from lab.simulation.aws.bus import Detail
from lab.simulation.catalogue import node_pool_manifest
from lab.simulation.faults import NO_FAULTS
from lab.simulation.kernel import SECOND
from lab.simulation.people.outsiders import Outsiders
from lab.simulation.people.users import NAMESPACE, POOL, Users, Wanted
from lab.simulation.play import hushed
from lab.simulation.process import SETTINGS
from lab.simulation.world import World
from reservoir.core.model.instance import RUNNING
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.safety.endings import Bounds
from reservoir.runtime.settings import Settings

LEAVES_AFTER_S: Final = 30  # Kubernetes' usual grace
CONSOLIDATE_AFTER: Final = "5m"
BUDGET: Final = "10%"
_INTERRUPTED: Final = frozenset({DrainReason.INTERRUPTION})


@dataclass(slots=True)
class Moves:
    """Replicas that had to leave a node while they were wanted."""

    by_choice: int = 0
    interrupted: int = 0


class _Owners(Outsiders):
    """Make the trace's reservations, and nothing else."""

    opens: Callable[[], None]

    def begin(self) -> None:
        """Make them."""
        self.opens()


class _Systems(Users):
    """Want what the trace says, and leave when they are told."""

    def hear(self, detail_type: str, detail: Detail) -> None:
        """Release a node's replicas once they have saved their work."""
        if detail_type != "Node Draining":
            return
        for workload in detail["workloads"]:
            metadata = {"namespace": workload["namespace"], "name": workload["name"]}
            body = {
                "action": "release",
                "workload": {"metadata": metadata},
                "nodeClaim": detail["node"]["nodeClaim"],
            }
            self.kernel.after(LEAVES_AFTER_S * SECOND, partial(self.send, json.dumps(body)))


class Ours(World):
    """The deployed pipeline in the trace's account; it may keep free units warm, or lend idle ones."""

    is_plain = True
    ec2_class = Account
    ec2: Account

    def __init__(self, trace: Trace, *, warms: bool = False, lends: bool = False) -> None:
        self._trace = trace
        self._warms = warms
        self._lends = lends
        self.version = 0
        self.moves = Moves()
        super().__init__(trace.seed)
        self.drawn = NO_FAULTS
        self.users = _Systems(self.kernel, self.chance, self.users.send)
        self.users.resting = True  # what chance would have them do
        self.agents.are_there = False
        self.keeps_history = False
        owners = _Owners(
            self.kernel, self.chance, self.faults, self.ec2, self.change_policy
        )
        owners.opens = partial(self.ec2.open, trace)
        self.outsiders = owners

    def _bounds(self) -> Bounds:
        return Bounds()

    def _behind(self) -> dict[str, Any]:
        sold = market()
        return {
            **super()._behind(),
            "unit_lender": EagerBorrowers(self.ec2, self.kernel),
            "instance_types": MemoryInstanceTypes(sold.types, sold.offered),
            "prices": MemoryPrices(sold.on_demand, sold.spot),
        }

    def _settings(self) -> Settings:
        # in looks at the clock: there is time enough
        return replace(SETTINGS, solve_budget=timedelta(hours=1))

    def _pool_manifest(self) -> dict[str, Any]:
        self.limits, self.budget, self.markets = {}, BUDGET, tuple(self._trace.markets)
        disruption = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": CONSOLIDATE_AFTER,
            "budgets": [{"nodes": BUDGET}],
        }
        pool = node_pool_manifest(POOL, self._trace.markets, disruption, {})
        if self._warms:
            pool["spec"]["warmReserved"] = "All"
        return pool

    def _perhaps_lending(
        self, node_class: dict[str, Any], is_upgraded: bool
    ) -> dict[str, Any]:
        del is_upgraded
        self.lends = self._lends
        if self._lends:
            node_class["spec"]["lending"] = {}
        return node_class

    def submit(self, job: Job) -> None:
        """Send what is wanted."""
        spec = {"resources": {"requests": dict(job.requests)}}
        wanted = Wanted(job.name, spec, job.replicas)
        self.users.wanted[job.name] = wanted
        self.users.send(wanted.message())

    def withdraw(self, job: Job) -> None:
        """Take it back."""
        wanted = self.users.wanted[job.name]
        wanted.withdrawn = True
        self.users.send(wanted.message())

    def running(self) -> Counter[str]:
        """Count replicas on instances that run, also those that have been told to leave and have not yet."""
        found = Counter[str]()
        for claim in self.state.claim_rows.values():
            instance = self.instance(claim.instance_id) if claim.is_live else None
            if instance is not None and instance.state == RUNNING:
                leaving = () if claim.drain is None else claim.drain.awaiting
                for placed in (*claim.placements, *leaving):
                    found[placed.workload_key.removeprefix(f"{NAMESPACE}/")] += placed.count
        return found

    def busy(self) -> Collection[str]:
        """Return the instances that have replicas."""
        return {
            claim.instance_id
            for claim in self.state.claim_rows.values()
            if claim.instance_id is not None
            and (claim.placements or (claim.drain is not None and claim.drain.awaiting))
        }

    def _row_written(self, key: str, before: Any, after: Any) -> None:
        super()._row_written(key, before, after)
        self.version += 1
        if (
            not isinstance(after, NodeClaim)
            or after.state is not ClaimState.DRAINING
            or after.drain is None
        ):
            return
        if isinstance(before, NodeClaim) and before.state is not ClaimState.DRAINING:
            wanted = self.users.wanted
            moved = sum(
                placed.count
                for placed in after.drain.awaiting
                if not wanted[placed.workload_key.removeprefix(f"{NAMESPACE}/")].withdrawn
            )
            if after.drain.reason in _INTERRUPTED:
                self.moves.interrupted += moved
            else:
                self.moves.by_choice += moved


def played(
    trace: Trace, *, warms: bool = False, lends: bool = False
) -> tuple[Meter, Moves]:
    """Play the trace; return what was counted and the moves."""
    world = Ours(trace, warms=warms, lends=lends)
    with hushed():
        world.begin()
        meter = play(world, trace, world.submit, world.withdraw)
    world.lambdas.stop()
    return meter, world.moves
