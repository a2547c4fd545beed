"""Consolidation: the same work on cheaper capacity, or on less of it (R-173 to R-185).

Candidates stand in one order (most saved per disruption first), so on-demand and spot nodes come before anything
prepaid. Two questions are asked of prefixes of that order: is there anything cheaper to launch (nodes that stay are
filled first, so this often launches nothing)? and: can the nodes that stay hold the replicas alone? Feasibility of a
prefix is nearly monotone, so the longest good one is found by bisection; then single nodes are tried. Unlike upstream,
several nodes may be replaced by several. Reserved nodes are grouped apart, lest the saving on a paid node pays for
moving a reserved one to paid capacity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

from shared.core.disruption.candidate import Candidate, Refusal
from shared.core.disruption.command import DisruptionCommand, command_of
from shared.core.disruption.price_rule import PriceRule
from shared.core.disruption.screen import Screen
from shared.core.disruption.simulation import World
from shared.core.node_pool import DisruptionReason
from shared.core.plan import Plan

COMMAND_NODES_MAX: Final = 100  # R-182; also what one transaction can mark
SINGLE_TRIALS_MAX: Final = 20  # full simulations of single nodes in a pass; the rest have their turn in later passes

_DELETE_EXPLANATION: Final = "its replicas fit on nodes that stay"
_REPLACE_EXPLANATION: Final = "cheaper capacity can hold its replicas"


@dataclass(frozen=True, slots=True)
class _Trial:
    removed: tuple[Candidate, ...]
    plan: Plan
    explanation: str


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What one pass of consolidation found: commands in order, the world after them, and why the rest stays."""

    commands: tuple[DisruptionCommand, ...]
    world: World
    removed: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]


def consolidate(world: World, candidates: Sequence[Candidate], rule: PriceRule, screen: Screen) -> Consolidation:
    """Consolidate ``candidates`` (in disruption order, already within budgets), as much as a pass may."""
    commands: list[DisruptionCommand] = []
    removed: list[Candidate] = []
    refusals: dict[str, str] = {}
    left = list(candidates)
    for reserved, attempt in product((False, True), (_try_replace, _try_delete)):
        while len(group := [candidate for candidate in left if candidate.is_reserved is reserved]) > 1:
            trial = _longest_prefix(group[:COMMAND_NODES_MAX], partial(attempt, world, rule))
            if not isinstance(trial, _Trial) or len(trial.removed) == 1:
                break  # single nodes are tried below, each for itself
            world, left = _apply(trial, world, left, commands, removed)
    for candidate in left:
        reason = screen.refusal(candidate)
        if reason is not None:
            refusals[candidate.id] = reason
    promising = _rotated([candidate for candidate in left if candidate.id not in refusals], world)
    for candidate in promising[:SINGLE_TRIALS_MAX]:
        if candidate not in left:
            continue  # an earlier command made it a destination
        trial = _try_single(world, candidate, rule)
        if isinstance(trial, _Trial):
            world, left = _apply(trial, world, left, commands, removed)
        else:
            refusals[candidate.id] = trial
    for candidate in promising[SINGLE_TRIALS_MAX:]:
        refusals.setdefault(candidate.id, "its turn comes in a later pass")
    gone = {candidate.id for candidate in removed}
    return Consolidation(
        tuple(commands),
        world,
        tuple(removed),
        tuple(Refusal(key, reason) for key, reason in sorted(refusals.items()) if key not in gone),
    )


def _rotated(candidates: list[Candidate], world: World) -> list[Candidate]:
    """Begin at another node each minute, so that a pass that cannot try all of them starves none."""
    if len(candidates) <= SINGLE_TRIALS_MAX:
        return candidates
    start = int(world.now.timestamp()) // 60 * SINGLE_TRIALS_MAX % len(candidates)
    return candidates[start:] + candidates[:start]


def _apply(
    trial: _Trial,
    world: World,
    left: list[Candidate],
    commands: list[DisruptionCommand],
    removed: list[Candidate],
) -> tuple[World, list[Candidate]]:
    """Record a trial as a command; its nodes and its destinations are candidates no more."""
    commands.append(command_of(DisruptionReason.UNDERUTILIZED, trial.removed, trial.plan, trial.explanation))
    removed.extend(trial.removed)
    busy = {candidate.id for candidate in trial.removed} | {placed.claim_id for placed in trial.plan.existing}
    return world.after(trial.removed, trial.plan), [candidate for candidate in left if candidate.id not in busy]


def _longest_prefix(
    candidates: Sequence[Candidate], attempt: Callable[[tuple[Candidate, ...]], _Trial | str]
) -> _Trial | str:
    """Bisect for the longest prefix that ``attempt`` accepts; feasibility is taken to be monotone (R-182)."""
    best: _Trial | str = "no group of nodes can go together"
    low, high = 1, len(candidates)
    while low <= high:
        middle = (low + high + 1) // 2
        trial = attempt(tuple(candidates[:middle]))
        if isinstance(trial, _Trial):
            best = trial
            low = middle + 1
        else:
            high = middle - 1
    return best


def _try_delete(world: World, rule: PriceRule, removed: tuple[Candidate, ...]) -> _Trial | str:
    plan = world.without(removed, launches=False)
    if plan.unplaced:
        return f"the nodes that stay cannot hold its replicas: {plan.unplaced[0].message}"
    refusal = rule.refusal(removed, plan)
    return refusal if refusal is not None else _Trial(removed, plan, _DELETE_EXPLANATION)


def _try_replace(world: World, rule: PriceRule, removed: tuple[Candidate, ...]) -> _Trial | str:
    plan = world.without(removed)
    if plan.unplaced:
        return f"its replicas would not all be placed: {plan.unplaced[0].message}"
    refusal = rule.refusal(removed, plan)
    return refusal if refusal is not None else _Trial(removed, rule.capped(removed, plan), _REPLACE_EXPLANATION)


def _try_single(world: World, candidate: Candidate, rule: PriceRule) -> _Trial | str:
    deleted = _try_delete(world, rule, (candidate,))
    return deleted if isinstance(deleted, _Trial) else _try_replace(world, rule, (candidate,))
