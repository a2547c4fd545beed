"""How many hops are between ranks that follow each other, beside the fewest that there could be.

Gangs on random trees of network nodes: when all are dealt their ranks, and when some of the nodes were replaced and
those that stay keep theirs. The exact program tries all orders (Held and Karp 1962 for the first deal), and knows
nothing of how the product deals.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations
from typing import Final

from lab.bench.harness import fresh
from lab.calibration import Figures
from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life.gang import seats, with_seat
from reservoir.core.node_life.proximity import hops, way_down
from reservoir.core.scheduling_terms.labels import NETWORK_NODE_LAYERS, ZONE_ID

_KEY: Final = "research/train"
_SEEDS: Final = 1_000
_FEWEST_NODES, _MOST_NODES = 3, 9
_REPLACED_MOST: Final = 4
_Hops = Callable[[str, str], int]


def cases() -> Sequence[str]:
    """Return the deal of a new gang, and the one after nodes were replaced."""
    return ["topology-dealt", "topology-replaced"]


def run(case: str) -> Figures:
    """Deal ranks on so many trees."""
    return fresh("lab.bench.exact.topology:measure", case.rpartition("-")[2], str(_SEEDS))


def measure(kind: str, seeds: str) -> Figures:
    """Add up the hops of so many gangs, and of the best orders."""
    ours = by_name = best = worst_percent = 0
    for seed in range(int(seeds)):
        dealt_hops, fewest, of_names = (_dealt if kind == "dealt" else _replaced)(seed)
        ours += dealt_hops
        by_name += of_names
        best += fewest
        if fewest:
            worst_percent = max(worst_percent, 100 * dealt_hops // fewest)
    return {
        "gangs": int(seeds),
        "hops": ours,
        "hops_of_best": best,
        "hops_by_name": by_name,
        "over_best": round(ours / best, 4),
        "worst_gang_percent_of_best": worst_percent,
    }


def _dealt(seed: int) -> tuple[int, int, int]:
    """Return the hops of a new gang's deal, of the best order, and of the order by name."""
    claims = list(_gang(random.Random(seed), "n"))
    between = _between(claims)
    by_name = sorted(claim.id for claim in claims)
    return _round(_order(claims), between), _fewest(claims), _round(by_name, between)


def _replaced(seed: int) -> tuple[int, int, int]:
    """Return the same where some nodes were replaced and the others keep their ranks."""
    chance = random.Random(seed)
    before = _seated(list(_gang(chance, "n")))
    lost = chance.sample(before, chance.randint(1, min(_REPLACED_MOST, len(before) - 1)))
    stay = [claim for claim in before if claim not in lost]
    new = list(_gang(chance, "r", len(lost)))
    claims = [*stay, *new]
    between = _between(claims)
    kept = {claim.seats[0].node_rank: claim.id for claim in stay}
    gaps = [rank for rank in range(len(claims)) if rank not in kept]
    fewest = min(
        _round(_filled(kept, gaps, each), between)
        for each in permutations(claim.id for claim in new)
    )
    by_name = _filled(kept, gaps, sorted(claim.id for claim in new))
    return _round(_order(claims), between), fewest, _round(by_name, between)


def _filled(kept: dict[int, str], gaps: Sequence[int], new: Sequence[str]) -> list[str]:
    by_rank = kept | dict(zip(gaps, new, strict=True))
    return [by_rank[rank] for rank in sorted(by_rank)]


def _gang(
    chance: random.Random, prefix: str, count: int | None = None
) -> Iterator[NodeClaim]:
    """Yield nodes anywhere under a tree of one to four children a network node."""
    widths = [chance.randint(1, 4) for _ in NETWORK_NODE_LAYERS]
    for number in range(count or chance.randint(_FEWEST_NODES, _MOST_NODES)):
        node, own = "nn", {ZONE_ID: "use1-az1"}
        for layer, width in zip(NETWORK_NODE_LAYERS, widths, strict=True):
            node = f"{node}-{chance.randrange(width)}"
            own[layer] = node
        placed = (PlacedReplicas(_KEY, 1),)
        claim = node_claim(
            f"{prefix}-{number}", placements=placed, state=ClaimState.RUNNING
        )
        yield replace(claim, address=f"ip-{claim.id}", labels=own)


def _seated(claims: Sequence[NodeClaim]) -> list[NodeClaim]:
    dealt = seats(_KEY, len(claims), claims)
    return [with_seat(dealt[claim.id], claim) or claim for claim in claims]


def _order(claims: Sequence[NodeClaim]) -> list[str]:
    ranked = sorted(_seated(claims), key=lambda claim: claim.seats[0].node_rank)
    return [claim.id for claim in ranked]


def _between(claims: Sequence[NodeClaim]) -> _Hops:
    ways = {claim.id: way_down(claim.labels) for claim in claims}
    return lambda one, other: hops(ways[one], ways[other])


def _round(order: Sequence[str], between: _Hops) -> int:
    """Return the hops from each rank to the next, and from the last to the first."""
    return sum(between(*each) for each in pairwise([*order, order[0]]))


def _fewest(claims: Sequence[NodeClaim]) -> int:
    """Return the fewest hops of any order of ranks."""
    first, *others = (claim.id for claim in claims)
    between = _between(claims)

    @cache
    def onward(here: str, left: frozenset[str]) -> int:
        if not left:
            return between(here, first)
        return min(between(here, it) + onward(it, left - {it}) for it in left)

    return onward(first, frozenset(others))
