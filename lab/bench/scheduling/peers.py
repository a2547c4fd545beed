"""The same trace through our pipeline and through Karpenter's rules: what users wait for, use, pay and have to move.

Three worlds of six hours, each drawn from three seeds that nothing was chosen with: ``services`` stay for hours,
``batch`` comes in bursts for minutes while spot is taken back often, in ``contended`` replicas that fill a node and
small ones want the same reserved units. Types, prices, reservations, boots (5 to 60 s), the life of spot instances, the
notice, the 30 s after which replicas leave, ``consolidateAfter`` (5 minutes) and the budget (10 %) are the same for
both; the n-th launch of either boots as long, and the n-th spot instance of either lasts as long.

Our side (``lab.bench.peers.ours``) is the deployed functions' own code on the simulation's account, where calls take 2
to 50 ms. Its planner's passes compute 6 ms in the middle and 0.12 s at most in these worlds, which counts as nothing;
so do Karpenter's. ``lab.bench.peers.karpenter`` says which of Karpenter's rules are in and which are not.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lab.bench.harness import fresh
from lab.bench.peers import karpenter, ours, trace
from lab.bench.peers.account import Meter
from lab.bench.peers.ours import Moves
from lab.bench.peers.trace import Trace
from lab.calibration import Figures

SEEDS: Final = (101, 102, 103)
WORLDS: Final = {
    "services": trace.services,
    "batch": trace.batch,
    "contended": trace.contended,
}
_Player = Callable[[Trace], tuple[Meter, Moves]]
_PLAYERS: Final[dict[str, _Player]] = {"ours": ours.played, "karpenter": karpenter.played}
_KINDS: Final[dict[str, dict[str, _Player]]] = {
    "peers": _PLAYERS,
    "warm": {"cold": ours.played, "warm": partial(ours.played, warms=True)},
    "lending": {"kept": ours.played, "lent": partial(ours.played, lends=True)},
}


def cases() -> Sequence[str]:
    """Name the worlds, each against the peer, and with free reserved units kept warm, or lent, against without."""
    return [f"{kind}-{name}" for kind in _KINDS for name in WORLDS]


def run(case: str) -> Figures:
    """Play one world in a process of its own."""
    return fresh("lab.bench.scheduling.peers:measure", case)


def measure(case: str) -> Figures:
    """Let both play each seed."""
    kind, _, world = case.partition("-")
    make = WORLDS[world]
    traces = [make(seed) for seed in SEEDS]
    figures: Figures = {
        "seeds": len(SEEDS),
        "replicas": sum(job.replicas for each in traces for job in each.jobs),
    }
    for name, play in _KINDS[kind].items():
        played = [play(each) for each in traces]
        figures |= {f"{name}_{what}": value for what, value in compared(played).items()}
    return figures


def compared(played: Sequence[tuple[Meter, Moves]]) -> Figures:
    """Return the figures of one side over all its seeds."""
    meters = [meter for meter, _ in played]
    waits_s = sorted(wait for meter in meters for wait in meter.waits_s)
    return {
        "time_to_capacity_p50_s": round(waits_s[len(waits_s) // 2], 1),
        "time_to_capacity_p99_s": round(waits_s[len(waits_s) * 99 // 100], 1),
        "lacking_share": round(
            sum(it.lacking_h for it in meters) / sum(it.wanted_h for it in meters), 5
        ),
        "reserved_use": round(
            sum(it.used_unit_h for it in meters) / sum(it.unit_h for it in meters), 3
        ),
        "idle_unit_hours": round(
            sum(it.unit_h - it.used_unit_h - it.lent_unit_h for it in meters), 1
        ),
        "lent_unit_hours": round(sum(it.lent_unit_h for it in meters), 1),
        "bought_usd": round(sum(it.bought_usd for it in meters), 2),
        "bought_usd_by_seed": [round(it.bought_usd, 2) for it in meters],
        "moves_by_choice": sum(moves.by_choice for _, moves in played),
        "moves_interrupted": sum(moves.interrupted for _, moves in played),
        "node_hours": round(sum(it.node_h for it in meters), 1),
        "empty_node_hours": round(sum(it.empty_node_h for it in meters), 1),
    }
