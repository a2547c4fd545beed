"""Karpenter's scheduling loop, ported as the peer of the benches: same snapshot in, cost and nodes out.

Faithful to what Karpenter does (queue order, in-flight claims by pod count, requirement intersection, type filter,
pessimistic holding of reservations, strict mode that defers to the next loop, launch of the cheapest offering), not to
how: types are bit sets and equal pods share their memos. Ties that Go leaves to chance go by order of creation. Not
ported: volumes, ports, daemons, minValues; ``lab.bench.peers`` plays batches, binding and consolidation around it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from lab.bench.karpenter.index import Index, PortOffering
from lab.bench.karpenter.loop import Claim, Loop
from lab.bench.karpenter.shapes import all_shapes
from lab.bench.karpenter.topology import Topology
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

_MOST_LOOPS = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the port decided; prices without per-node overhead."""

    nodes: int
    price_atto_usd: int
    bought_atto_usd: int  # without what runs in reservations
    loops: int
    unplaced: int
    reserved_units: int
    over_commitments: int
    by_market: tuple[tuple[str, int], ...]
    seconds: float


class Port:
    """One cluster over as many loops as it takes."""

    def __init__(
        self, snapshot: Snapshot, now: datetime, pools: Sequence[NodePool] | None = None
    ) -> None:
        self._snapshot = snapshot
        self._index = Index(snapshot, now)
        # Weight first, then the name backwards.
        named = sorted(
            pools if pools is not None else snapshot.node_pools,
            key=lambda pool: pool.name,
            reverse=True,
        )
        self._pools = sorted(named, key=lambda pool: -pool.weight)
        self._limits = {
            pool.name: dict(pool.limits) for pool in self._pools if pool.limits is not None
        }
        self._nodes: list[Claim] = []
        self._launched: list[PortOffering] = []
        self._over_commitments = 0
        # of claims, over all loops
        self._names = (f"node-{number:06d}" for number in count(1))
        self._add_existing()
        universes = {
            labels.ZONE: {offering.zone for offering in self._index.offerings},
            labels.CAPACITY_TYPE: {
                str(offering.capacity_type) for offering in self._index.offerings
            },
        }
        self._topology = Topology(universes)
        self._shapes = all_shapes(snapshot.demands, self._index, self._topology)

    def run(self) -> Outcome:
        """Run loops until nothing is pending or a loop places nothing."""
        started = time.perf_counter()
        queue = [shape for shape, number in self._shapes for _ in range(number)]
        # CPU, then memory, descending; then creation order.
        queue.sort(
            key=lambda shape: (-dict(shape.size)["cpu"], -dict(shape.size).get("memory", 0))
        )
        loops = 0
        while queue and loops < _MOST_LOOPS:
            loops += 1
            loop = Loop(
                self._names,
                self._index,
                self._topology,
                self._nodes,
                self._pools,
                self._limits,
            )
            left = loop.run(queue)
            self._launch(loop.claims)
            if len(left) == len(queue):
                break
            queue = left
        markets = Counter(str(offering.capacity_type) for offering in self._launched)
        return Outcome(
            nodes=len(self._launched),
            price_atto_usd=sum(offering.price_atto_usd for offering in self._launched),
            bought_atto_usd=sum(
                item.price_atto_usd
                for item in self._launched
                if item.reservation_id is None
            ),
            loops=loops,
            unplaced=len(queue),
            reserved_units=markets[str(CapacityType.RESERVED)],
            over_commitments=self._over_commitments,
            by_market=tuple(sorted(markets.items())),
            seconds=time.perf_counter() - started,
        )

    # -- what there is

    def _add_existing(self) -> None:
        pools = {pool.name: pool for pool in self._pools}
        # Initialised nodes first, then by name.
        for node in sorted(
            self._snapshot.nodes, key=lambda node: (not node.initialized, node.claim_id)
        ):
            pool = pools.get(node.node_pool_name, self._pools[0])
            described = {**node.labels, labels.HOSTNAME: node.claim_id}
            requirements = self._index.interned(Requirements.from_labels(described))
            self._nodes.append(
                Claim(
                    node.claim_id, pool, requirements, 0, free=node.allocatable - node.used
                )
            )

    # -- launching

    def _launch(self, claims: Sequence[Claim]) -> None:
        """Launch each claim as the cheapest offering that it still allows; it is an existing node from now on."""
        for claim in claims:
            # A held reservation and nothing else, when there is one.
            if claim.held:
                offering = self._index.cheapest_held(claim.held, claim.types)
            else:
                offering = self._index.cheapest(
                    self._index.interned(claim.requirements), claim.types
                )
            if offering.reservation_id is not None:
                self._index.counts[offering.reservation_id] -= 1
                self._over_commitments += self._index.counts[offering.reservation_id] < 0
            self._launched.append(offering)
            instance_type = self._index.types[offering.type_index]
            described = claim.requirements.merged(instance_type.requirements).merged(
                offering.requirements
            )
            self._nodes.append(
                Claim(
                    claim.name,
                    claim.pool,
                    self._index.interned(described),
                    0,
                    count=claim.count,
                    free=instance_type.allocatable - Resources.of(claim.load),
                )
            )
        self._index.new_loop()


def provision(
    snapshot: Snapshot, now: datetime, pools: Sequence[NodePool] | None = None
) -> Outcome:
    """Run the port on a snapshot, with its own pools or with others."""
    return Port(snapshot, now, pools).run()
