"""One pass of voluntary disruption (R-163): emptiness, drift, consolidation; each sees the world the last one left."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from reservoir.core.disruption.candidate import (
    Candidate,
    Refusal,
    blocked_reason,
    make_candidate,
    marked_reason,
    not_consolidatable_reason,
    protected_reason,
    settling_reason,
)
from reservoir.core.disruption.command import (
    LATER,
    RECEIVES,
    DisruptionCommand,
    DisruptionDecision,
    WaitingTurn,
    command_of,
)
from reservoir.core.disruption.effort import Effort, effort_a_pass
from reservoir.core.disruption.headroom import Headroom, used_up
from reservoir.core.disruption.methods.consolidation import consolidate
from reservoir.core.disruption.methods.deleted_pool import deleted_pools
from reservoir.core.disruption.methods.drift import Offered, drift_reason
from reservoir.core.disruption.methods.emptiness import (
    kept_reason,
    paid_empty,
    reserved_empty,
)
from reservoir.core.disruption.methods.reclaim import reclaimed
from reservoir.core.disruption.methods.reclaim_resources import resources_reclaimed
from reservoir.core.disruption.methods.replacement import replace_drifted
from reservoir.core.disruption.methods.static_renewal import aged_reason
from reservoir.core.disruption.methods.static_surplus import too_many
from reservoir.core.disruption.methods.unit_moves import UnitMoves
from reservoir.core.disruption.methods.unit_splits import (
    UNDER_WAY,
    place_of,
    places_under_way,
    split_units,
)
from reservoir.core.disruption.saving.balanced import PoolTotals
from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.disruption.saving.price_rule import PriceRule
from reservoir.core.disruption.simulation import PassState, Solve
from reservoir.core.disruption.unit_move import UnitMove
from reservoir.core.disruption.unit_split import UnitSplit
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import DisruptionReason, NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.team import ReclaimWithinCohort
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.core.warm_nodes.free_units import warm_nodes
from reservoir.core.warm_nodes.wanted import KEPT_WARM, WarmWishes


@dataclass(frozen=True, slots=True)
class DisruptionInput:
    """The input of a pass: the snapshot, the claims behind its nodes, and what budgets and the deployment allow.

    ``returning``: units by reservation that were reclaimed for their owners, and not given out yet. ``waiting``: since
    when nodes wait for their turn, by claim, from the last pass. ``splitting``: leases of units that are on their way
    into resource groups. ``account_id``: the deployment's.
    """

    snapshot: Snapshot
    claims: Mapping[str, NodeClaim]
    allowed: Mapping[tuple[str, DisruptionReason], int]
    spot_to_spot: bool = False  # whether spot nodes may be replaced by cheaper spot nodes
    returning: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, datetime] = field(default_factory=dict)
    splitting: tuple[NodeClaim, ...] = ()
    account_id: str = ""


def decide_disruption(
    given: DisruptionInput, solve: Solve, *, now: datetime, effort: int | None = None
) -> DisruptionDecision:
    """Decide what to disrupt. Pure: the same input gives the same decision.

    ``effort`` bounds the simulations (``reservoir.core.disruption.effort``; None: as much as a fleet of this size is
    worth); nodes for which it does not suffice wait.

    Loans that their owners wait for are reclaimed first; surplus nodes of static pools, and warm ones, end. Then:
    empty on-demand and spot nodes end; drifted nodes are replaced; free units are split off for nodes that EC2 can move
    into them without a restart; consolidation moves work, also onto empty reserved nodes; reserved nodes that are still
    empty end, and their units go back. Units that are idle after that may move to equal reservations, if pools allow
    it.
    """
    left = Effort(effort_a_pass(len(given.snapshot.nodes)) if effort is None else effort)
    decider = _Pass(
        given, PassState.of(given.snapshot, solve, now, _closed(given, now), left)
    )
    decider.expect_pending()
    decider.reclaim()
    decider.scale_down()
    decider.end_warm_nodes()
    decider.remove_empty_paid()
    decider.replace_drifted()
    decider.split_units()
    decider.consolidate()
    decider.return_empty_reserved()
    decider.move_units()
    return decider.decision()


def _closed(given: DisruptionInput, now: datetime) -> Iterator[str]:
    """Yield nodes onto which nothing may be moved.

    Their pool was deleted, they do not run yet and may never do so, their room is promised to others, or they changed
    less than consolidateAfter ago: such nodes are left to settle (R-173). A warm node need not: it is a free unit.
    """
    pools = {pool.name: pool for pool in given.snapshot.node_pools}
    for node in given.snapshot.nodes:
        claim, pool = given.claims.get(node.claim_id), pools.get(node.node_pool_name)
        if claim is None:
            continue
        if (
            pool is None
            or blocked_reason(claim, now) is not None
            or not (claim.is_kept_warm or settling_reason(claim, pool, now) is None)
        ):
            yield node.claim_id


def _without(candidates: Sequence[Candidate], busy: Set[str]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.id not in busy]


class _Pass:
    """The state of one pass."""

    def __init__(self, given: DisruptionInput, world: PassState) -> None:
        self._given = given
        self._before = world
        self._waiting: Plan | None = None  # where the demand that waits will go
        self._world = world
        self._headroom = Headroom(given.allowed)
        self._prices = NodePrices.of(given.snapshot.instance_types)
        self._commands: list[DisruptionCommand] = []
        self._moves: tuple[UnitMove, ...] = ()
        self._splits: tuple[UnitSplit, ...] = ()
        # that EC2 could move into a unit, whatever else may be done to them
        self._at_groups: list[Candidate] = []
        self._refusals: dict[str, str] = {}
        # of drifted nodes that stay; it comes before any other reason
        self._drift_refusals: dict[str, str] = {}
        self._candidates: list[Candidate] = []
        self._drifted: list[tuple[Candidate, str]] = []
        self._reclaimable: list[Candidate] = []
        self._warm: list[Candidate] = []
        self._warm_units = {
            key: len(nodes) for key, nodes in warm_nodes(given.claims.values()).items()
        }
        self._totals: dict[str, PoolTotals] = {}
        self._sort_out()
        self._consolidatable = [
            candidate for candidate in self._candidates if self._may_consolidate(candidate)
        ]

    # Branches: one question after the other about each node; the answers give the reasons for which it may end.
    def _sort_out(self) -> None:
        snapshot = self._given.snapshot
        pools = {pool.name: pool for pool in snapshot.node_pools}
        deleted = {
            pool.name: pool
            for pool in deleted_pools(snapshot.node_pools, self._given.claims.values())
        }
        classes = {node_class.name: node_class for node_class in snapshot.node_classes}
        offered = Offered.of(snapshot)
        for node in snapshot.nodes:
            claim = self._given.claims.get(node.claim_id)
            pool = pools.get(node.node_pool_name)
            if claim is None:
                continue
            if pool is None:
                self._sort_out_orphan(node, claim, deleted[node.node_pool_name])
                continue
            candidate = make_candidate(node, claim, pool, snapshot.workloads, self._prices)
            if claim.is_kept_warm:
                self._warm.append(candidate)
                self._refusals[claim.id] = KEPT_WARM
                continue
            self._count(candidate)
            blocked = blocked_reason(claim, self._world.now) or marked_reason(pool)
            if blocked is not None:
                self._refusals[claim.id] = blocked
                continue
            # their units would only be taken for new nodes of the pool
            if not pool.is_static:
                # work with do-not-disrupt has its lender's grace
                self._reclaimable.append(candidate)
            drifted = drift_reason(
                claim, pool, classes.get(claim.node_class_name), offered, self._world.now
            )
            drifted = drifted or aged_reason(claim, pool, self._world.now)
            protected = protected_reason(node.placements, snapshot.workloads)
            is_bounded = pool.termination_grace_period_s is not None
            if drifted is not None and (protected is None or is_bounded):
                self._drifted.append((candidate, drifted))
            if protected is None:
                self._candidates.append(candidate)
            elif drifted is None or not is_bounded:
                self._refusals[claim.id] = protected
        self._candidates.sort(key=lambda candidate: candidate.order)

    def _sort_out_orphan(self, node: Node, claim: NodeClaim, pool: NodePool) -> None:
        """End a node of a deleted pool as a drifted one; a node that must not be disturbed stays."""
        workloads = self._given.snapshot.workloads
        why = f"NodePool {pool.name} was deleted"
        stays = blocked_reason(claim, self._world.now) or protected_reason(
            node.placements, workloads
        )
        if stays is not None:
            self._refusals[claim.id] = f"{why}; {stays}"
        else:
            candidate = make_candidate(
                node, claim, pool, workloads, self._prices, is_orphan=True
            )
            self._drifted.append((candidate, why))

    def _count(self, candidate: Candidate) -> None:
        """Add to the price and disruption cost of its pool's nodes, candidates or not (R-191); note where it is."""
        if place_of(candidate.claim) is not None:
            self._at_groups.append(candidate)
        name = candidate.pool.name
        so_far = self._totals.get(name, PoolTotals(0, 0))
        self._totals[name] = PoolTotals(
            so_far.price + candidate.price, so_far.disruption + candidate.disruption_cost
        )

    def _may_consolidate(self, candidate: Candidate) -> bool:
        reason = not_consolidatable_reason(candidate, self._world.now)
        if reason is not None:
            self._refusals[candidate.id] = reason
        return reason is None

    def expect_pending(self) -> None:
        """Reserve the room that waiting demand will take, and the nodes that it will take it on."""
        if not self._given.snapshot.demands or not self._may_act():
            return
        plan = self._waiting = self._world.pending()
        self._world = self._world.after((), plan)
        if plan.unplaced and self._warm_units:
            # The planner gives it what is free, and units of warm nodes are: nothing is taken back for that.
            self._before = self._before.with_units(self._warm_units)
            self._waiting = self._before.pending()
        expecting = {placement.claim_id for placement in plan.existing}
        for candidate in self._consolidatable:
            if candidate.id in expecting:
                self._refusals[candidate.id] = "replicas that wait will be placed on it"
        self._consolidatable = [
            candidate for candidate in self._consolidatable if candidate.id not in expecting
        ]

    def _may_act(self) -> bool:
        """Whether a node could go or a unit move: only then it matters where demand will go, which costs a solve."""
        snapshot = self._given.snapshot
        takes_back = any(
            team.reclaim_within_cohort is not ReclaimWithinCohort.NEVER
            for team in snapshot.teams
        )
        moves = any(pool.disruption.move_reserved_units for pool in snapshot.node_pools)
        return bool(
            self._consolidatable
            or self._drifted
            or (takes_back and self._reclaimable)
            or moves
            or self._at_groups
        )

    def reclaim(self) -> None:
        """End nodes whose units, or room, are loans that their owners wait for; a gang ends whole."""
        if self._waiting is None or not self._waiting.unplaced:
            return
        units = list(
            reclaimed(self._before, self._waiting, self._reclaimable, self._given.returning)
        )
        taken: set[str] = set()
        for found in units:
            taken.update(candidate.id for candidate in found.candidates)
        left = [candidate for candidate in self._reclaimable if candidate.id not in taken]
        for found in (*units, *resources_reclaimed(self._before, self._waiting, left)):
            going = found.candidates
            if len(self._headroom.within(list(going), DisruptionReason.RECLAIMED)) < len(
                going
            ):
                for candidate in going:
                    self._refusals[candidate.id] = used_up(candidate)
                continue
            self._headroom.spend(going)
            self._world = self._world.after(going, Plan())
            self._begin(
                (command_of(DisruptionReason.RECLAIMED, going, Plan(), found.explanation),)
            )

    def scale_down(self) -> None:
        """End surplus nodes of static pools."""
        snapshot = self._given.snapshot
        reserved = ReservedCapacity.of(
            snapshot.reservations,
            snapshot.node_classes,
            snapshot.instance_types,
            self._world.now,
        )
        for pool in snapshot.node_pools:
            if not pool.is_static:
                continue
            going = too_many(pool, self._candidates, self._given.claims, reserved)
            if not going:
                continue
            self._headroom.spend(going)
            self._world = self._world.after(going, Plan())
            command = command_of(
                DisruptionReason.EMPTY,
                going,
                Plan(),
                f"NodePool {pool.name} has too many nodes",
            )
            self._begin((replace(command, scales_down=True),))

    def end_warm_nodes(self) -> None:
        """End warm nodes that their pools do not want, and those that have drifted: new ones come in their place."""
        snapshot, now = self._given.snapshot, self._world.now
        reserved = ReservedCapacity.of(
            snapshot.reservations, snapshot.node_classes, snapshot.instance_types, now
        )
        wishes = WarmWishes(
            snapshot.node_pools, self._given.claims, reserved, self._given.account_id
        )
        unwanted: dict[str, str] = {}
        for pool in snapshot.node_pools:
            unwanted.update(wishes.of(pool).surplus)
        classes = {node_class.name: node_class for node_class in snapshot.node_classes}
        offered = Offered.of(snapshot)
        going: dict[str, list[Candidate]] = {}
        for candidate in self._warm:
            node_class = classes.get(candidate.claim.node_class_name)
            why = unwanted.get(candidate.id) or drift_reason(
                candidate.claim, candidate.pool, node_class, offered, now
            )
            if why is not None and blocked_reason(candidate.claim, now) is None:
                going.setdefault(why, []).append(candidate)
        for why, nodes in sorted(going.items()):
            self._world = self._world.after(nodes, Plan())
            command = command_of(DisruptionReason.EMPTY, tuple(nodes), Plan(), why)
            self._begin((replace(command, scales_down=True),))

    def remove_empty_paid(self) -> None:
        """Delete empty on-demand and spot nodes, in one command."""
        self._delete_empty(paid_empty(self._consolidatable), "empty")

    def replace_drifted(self) -> None:
        """Replace drifted nodes, one command each."""
        outcome = replace_drifted(
            self._world,
            self._drifted,
            self._headroom,
            self._given.claims,
            self._given.waiting,
        )
        self._drift_refusals = {
            refusal.claim_id: refusal.reason for refusal in outcome.refusals
        }
        self._world = outcome.world
        self._begin(outcome.commands)

    def split_units(self) -> None:
        """Split units off for nodes that EC2 moves into them; those, and similar ones, are left alone meanwhile."""
        going = {candidate.id for candidate, _ in self._drifted}
        going.update(chain.from_iterable(command.claim_ids for command in self._commands))
        staying = _without(self._at_groups, going)
        under_way = places_under_way(
            self._given.snapshot.reservations,
            self._given.claims.values(),
            self._given.splitting,
        )
        self._splits, self._world = split_units(
            self._world,
            self._at_groups,
            {candidate.id for candidate in staying},
            under_way,
        )
        places = under_way | {
            place_of(self._given.claims[split.for_node]) for split in self._splits
        }
        moving = {
            candidate.id for candidate in staying if place_of(candidate.claim) in places
        }
        self._refusals.update(dict.fromkeys(moving, UNDER_WAY))
        self._consolidatable = _without(self._consolidatable, moving)

    def consolidate(self) -> None:
        """Move work onto cheaper capacity or less of it."""
        occupied = [
            candidate for candidate in self._consolidatable if not candidate.is_empty
        ]
        outcome = consolidate(
            self._world,
            occupied,
            self._price_rule(),
            self._given.waiting,
            self._headroom,
        )
        self._refusals.update(
            {refusal.claim_id: refusal.reason for refusal in outcome.refusals}
        )
        self._world = outcome.world
        self._begin(outcome.commands)

    def _price_rule(self) -> PriceRule:
        snapshot, gate = self._world.snapshot, self._given.spot_to_spot
        return PriceRule.of(snapshot, self._prices, self._totals, spot_to_spot=gate)

    def return_empty_reserved(self) -> None:
        """Give empty reserved nodes back to their reservations, unless their pool keeps them."""
        going = []
        for candidate in reserved_empty(self._consolidatable):
            kept = kept_reason(candidate, self._world.now)
            if kept is None:
                going.append(candidate)
            else:
                self._refusals[candidate.id] = kept
        self._delete_empty(going, "empty; the unit goes back to its reservation")

    def move_units(self) -> None:
        """Move free units to reservations where waiting demand, or bought nodes, can use them."""
        wanting = [
            pool.name
            for pool in self._world.snapshot.node_pools
            if pool.disruption.move_reserved_units
        ]
        if not wanting:
            return
        search = UnitMoves(wanting, self._price_rule())
        for_demand: tuple[UnitMove, ...] = ()
        if self._waiting is not None:
            for_demand, self._world = search.for_demand(
                self._before, self._waiting, self._world
            )
        for_nodes, self._world = search.for_nodes(
            self._world, self._consolidatable, self._headroom
        )
        for move in for_nodes:
            note = f"waits for a unit that moves from {move.source_id} to {move.destination_id}"
            self._refusals.update(dict.fromkeys(move.for_nodes, note))
        self._moves = (*for_demand, *for_nodes)

    def _delete_empty(self, candidates: list[Candidate], explanation: str) -> None:
        going = tuple(self._within_budgets(candidates, DisruptionReason.EMPTY))
        if not going:
            return
        self._headroom.spend(going)
        self._world = self._world.after(going, Plan())
        self._begin((command_of(DisruptionReason.EMPTY, going, Plan(), explanation),))

    def _begin(self, commands: Sequence[DisruptionCommand]) -> None:
        """Take commands; their nodes, and nodes that replicas move onto, are left alone for the rest of the pass."""
        self._commands.extend(commands)
        receiving = set(chain.from_iterable(command.destinations for command in commands))
        busy = receiving.union(*(command.claim_ids for command in commands))
        for candidate in self._consolidatable:
            if candidate.id in receiving:
                self._refusals[candidate.id] = RECEIVES
        self._consolidatable = _without(self._consolidatable, busy)
        self._candidates = _without(self._candidates, busy)
        self._drifted = [
            (candidate, why) for candidate, why in self._drifted if candidate.id not in busy
        ]

    def _within_budgets(
        self, candidates: list[Candidate], reason: DisruptionReason
    ) -> list[Candidate]:
        """Return the candidates that budgets allow, and give the others their reason."""
        within = self._headroom.within(candidates, reason)
        chosen = {candidate.id for candidate in within}
        for candidate in candidates:
            if candidate.id not in chosen:
                self._refusals[candidate.id] = used_up(candidate)
        return within

    def decision(self) -> DisruptionDecision:
        """Return the commands in the order they were found, and a refusal for every node that stays."""
        taken = set(chain.from_iterable(command.claim_ids for command in self._commands))
        refusals = self._refusals | self._drift_refusals
        stays = tuple(
            Refusal(key, reason)
            for key, reason in sorted(refusals.items())
            if key not in taken
        )
        unjudged = (refusal.claim_id for refusal in stays if refusal.reason.endswith(LATER))
        waiting = tuple(
            WaitingTurn(key, self._given.waiting.get(key, self._world.now))
            for key in unjudged
        )
        return DisruptionDecision(
            tuple(self._commands), stays, self._moves, waiting, self._splits
        )
