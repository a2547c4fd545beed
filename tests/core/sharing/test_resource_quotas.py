"""Quotas of resources by capacity type: kept to the replica, lent within a cohort, explained, and checked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import ResourceQuota, Team
from reservoir.core.model.workload import Demand, FallbackStep, Gang
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps, loads
from tests.core.scheduler.world import (
    NOW,
    ON_DEMAND,
    POLICY,
    RESERVED,
    SPOT,
    fx_type,
    markets,
    node,
    pool,
)
from tests.core.sharing.world import planned, violations, wants, world

NODE = 7_000  # millicores of one replica: one node each
USD = 1_000_000
# Spot costs half, so that it is taken as far as quotas leave it.
TYPE = fx_type("p5", 8, 8, pods=10, price={SPOT: USD // 2, ON_DEMAND: USD})
EVERY_MARKET: Any = {
    "node_pools": (pool("default", markets(RESERVED, SPOT, ON_DEMAND)),),
    "instance_types": (TYPE,),
}


def quota(
    nodes: int, *on: CapacityType, resource: str = "cpu", **limits: int
) -> ResourceQuota:
    """A quota of so many whole nodes' replicas."""
    limit, lent = (
        limits[key] * NODE if key in limits else None
        for key in ("borrowing_limit", "lending_limit")
    )
    return ResourceQuota(tuple(sorted(on)), resource, nodes * NODE, limit, lent)


def team(name: str, *quotas: ResourceQuota, **changes: Any) -> Team:
    return Team(name, namespaces=(name,), resource_quotas=quotas, **changes)


def market(
    teams: Iterable[Team],
    demands: Iterable[Demand],
    used: Mapping[str, int] | None = None,
    **changes: Any,
) -> Snapshot:
    """A market without reservations; ``used`` by namespace runs on spot."""
    snapshot = world(
        teams,
        demands,
        used,
        units=sum((used or {}).values()),
        **{**EVERY_MARKET, **changes},
    )
    nodes = [
        replace(node, capacity_type=SPOT, reservation_id=None) for node in snapshot.nodes
    ]
    return replace(snapshot, nodes=tuple(nodes), reservations=())


def placed(plan: Plan) -> dict[tuple[str, CapacityType], int]:
    """Count replicas on new nodes by namespace and capacity type."""
    found: Counter[tuple[str, CapacityType]] = Counter()
    for launch in plan.launches:
        for each in launch.placements:
            found[each.workload_key.partition("/")[0], launch.offering.capacity_type] += (
                each.count * launch.count
            )
    return dict(found)


def test_what_a_quota_leaves_no_room_for_goes_elsewhere() -> None:
    plan = planned(market([team("audio", quota(3, SPOT))], [wants("audio", 5)]))
    assert placed(plan) == {("audio", SPOT): 3, ("audio", ON_DEMAND): 2}


def test_a_quota_of_all_that_is_bought_leaves_replicas_waiting() -> None:
    plan = planned(market([team("audio", quota(3, SPOT, ON_DEMAND))], [wants("audio", 5)]))
    assert sum(placed(plan).values()) == 3
    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.count) == (ReasonCode.TEAM_QUOTA, 2)
    assert "Team audio has 21 cpu on on-demand and spot and owns 21" in refusal.message


def test_what_runs_counts() -> None:
    plan = planned(
        market(
            [team("audio", quota(3, SPOT, ON_DEMAND))], [wants("audio", 5)], {"audio": 2}
        )
    )
    assert sum(placed(plan).values()) == 1


def test_quotas_of_several_resources_hold_together() -> None:
    memory = ResourceQuota((SPOT,), "memory", 2 * 2**30)
    demand = wants("audio", 5, requests=Resources.of({"cpu": NODE, "memory": 2**30}))
    plan = planned(market([team("audio", quota(4, SPOT), memory)], [demand]))
    assert placed(plan) == {("audio", SPOT): 2, ("audio", ON_DEMAND): 3}


def test_work_that_asks_for_none_of_it_is_not_held() -> None:
    plan = planned(
        market(
            [team("audio", quota(0, SPOT, ON_DEMAND, resource="nvidia.com/gpu"))],
            [wants("audio", 5)],
        )
    )
    assert placed(plan) == {("audio", SPOT): 5}


def test_reserved_units_may_be_bounded_too() -> None:
    snapshot = world(
        [team("audio", quota(2, RESERVED))], [wants("audio", 5)], units=4, **EVERY_MARKET
    )
    assert placed(planned(snapshot)) == {("audio", RESERVED): 2, ("audio", SPOT): 3}


def test_nobody_elses_work_is_held() -> None:
    teams = (team("audio", quota(1, SPOT, ON_DEMAND)), team("vision"))
    plan = planned(
        market(teams, [wants("audio", 3), wants("vision", 3), wants("of-no-team", 2)])
    )
    assert placed(plan) == {
        ("audio", SPOT): 1,
        ("vision", SPOT): 3,
        ("of-no-team", SPOT): 2,
    }


def test_a_quota_that_suffices_changes_no_plan() -> None:
    snapshot = market(
        [team("audio", quota(5, SPOT), quota(5, ON_DEMAND))], [wants("audio", 5)]
    )
    plan, without = planned(snapshot), planned(replace(snapshot, teams=()))
    without = replace(
        without, launches=tuple(replace(it, alternatives=()) for it in without.launches)
    )
    assert (
        replace(plan, launches=tuple(replace(it, alternatives=()) for it in plan.launches))
        == without
    )


def test_priority_then_age_decides_who_of_a_team_has_it() -> None:
    demands = [wants("audio", 2, job="young"), wants("audio", 2, job="urgent", priority=5)]
    demands.append(wants("audio", 2, job="old", waiting=timedelta(hours=1)))
    plan = planned(market([team("audio", quota(3, SPOT, ON_DEMAND))], demands))
    waiting = {refusal.workload_key: refusal.count for refusal in plan.unplaced}
    assert waiting == {"audio/young": 2, "audio/old": 1}


def test_what_a_solve_leaves_of_a_quota_is_dealt_out_again() -> None:
    """One on-demand node is cheaper for both of vision's replicas than a node on each market: spot is left to audio."""
    third = Resources.of({"cpu": NODE // 3})
    teams = (
        team("audio", quota(0, SPOT), quota(0, ON_DEMAND)),
        team("vision", ResourceQuota((SPOT,), "cpu", NODE // 3)),
    )
    plan = planned(
        market(
            teams, [wants("audio", 1, requests=third), wants("vision", 2, requests=third)]
        )
    )
    assert placed(plan) == {("audio", SPOT): 1, ("vision", ON_DEMAND): 2}


def test_small_work_takes_what_large_work_cannot() -> None:
    large = wants("audio", 1, job="large", priority=5, requests=Resources.of({"cpu": NODE}))
    small = wants("audio", 2, job="small", requests=Resources.of({"cpu": NODE // 2}))
    only = ResourceQuota((ON_DEMAND, SPOT), "cpu", NODE - 1)
    plan = planned(market([team("audio", only)], [large, small]))
    assert {refusal.workload_key: refusal.count for refusal in plan.unplaced} == {
        "audio/large": 1,
        "audio/small": 1,
    }


@pytest.mark.parametrize(
    ("size", "there"), [(3, {("audio", SPOT): 3}), (4, {("audio", ON_DEMAND): 4})]
)
def test_a_gang_has_room_whole_or_not_at_all(
    size: int, there: dict[tuple[str, CapacityType], int]
) -> None:
    gang = wants("audio", size, gang=Gang())
    assert placed(planned(market([team("audio", quota(3, SPOT))], [gang]))) == there


def test_a_ladder_is_not_blamed_on_a_quota() -> None:
    ladder = (FallbackStep(SPOT, 3600), FallbackStep(ON_DEMAND))
    plan = planned(
        market([team("audio", quota(1, SPOT))], [wants("audio", 3, fallback=ladder)])
    )
    assert placed(plan) == {("audio", SPOT): 1}
    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.earliest_at) == (
        ReasonCode.TEAM_QUOTA,
        NOW + timedelta(hours=1),
    )


def test_a_price_cap_holds_over_all_parts() -> None:
    demand = wants("audio", 4, max_price_micro_usd_per_hour=3 * USD)
    plan = planned(market([team("audio", quota(2, SPOT))], [demand]))
    assert placed(plan) == {("audio", SPOT): 2, ("audio", ON_DEMAND): 2}


def test_a_budget_and_a_quota_hold_at_once() -> None:
    both = team("audio", quota(2, SPOT), budget_micro_usd_per_hour=3 * USD)
    found = placed(planned(market([both], [wants("audio", 9)])))
    assert found == {("audio", SPOT): 2, ("audio", ON_DEMAND): 2}


def test_a_budget_that_is_enough_for_one_node_buys_it_for_either_part() -> None:
    poor = team(
        "audio", quota(0, SPOT), quota(1, SPOT, ON_DEMAND), budget_micro_usd_per_hour=USD
    )
    assert placed(planned(market([poor], [wants("audio", 3)]))) == {("audio", ON_DEMAND): 1}


def test_room_that_a_quota_forbids_takes_nothing_from_a_budget() -> None:
    """Room on a spot node of 16 USD would take a budget of one; with no quota on spot nobody may have it."""
    dear = replace(
        node("dear", TYPE, capacity_type=SPOT), price_atto_usd_per_hour=16 * USD * 10**12
    )
    poor = team("audio", quota(0, SPOT), budget_micro_usd_per_hour=USD)
    snapshot = replace(market([poor], [wants("audio", 3)]), nodes=(dear,))
    plan = planned(snapshot)
    assert plan.existing == ()
    assert placed(plan) == {("audio", ON_DEMAND): 1}


# -- cohorts


def pair(audio: ResourceQuota, vision: ResourceQuota, **changes: Any) -> tuple[Team, Team]:
    return team("audio", audio), team("vision", vision, **changes)


def test_what_one_leaves_another_of_its_cohort_borrows() -> None:
    own = quota(3, SPOT, ON_DEMAND)
    plan = planned(market(pair(own, own), [wants("audio", 9), wants("vision", 1)]))
    assert placed(plan) == {("audio", SPOT): 5, ("vision", SPOT): 1}
    apart = planned(market(pair(own, own, cohort="elsewhere"), [wants("audio", 9)]))
    assert placed(apart) == {("audio", SPOT): 3}


@pytest.mark.parametrize(
    ("audio", "vision", "most"),
    [
        (quota(3, SPOT, ON_DEMAND, borrowing_limit=1), quota(3, SPOT, ON_DEMAND), 4),
        (quota(3, SPOT, ON_DEMAND), quota(3, SPOT, ON_DEMAND, lending_limit=2), 5),
        (quota(3, SPOT, ON_DEMAND, borrowing_limit=0), quota(3, SPOT, ON_DEMAND), 3),
    ],
)
def test_limits_of_borrower_and_lender(
    audio: ResourceQuota, vision: ResourceQuota, most: int
) -> None:
    plan = planned(market(pair(audio, vision), [wants("audio", 9)]))
    assert placed(plan) == {("audio", SPOT): most}


def test_who_waits_for_its_own_hears_who_borrows_it_and_when_it_comes_back() -> None:
    own = quota(2, SPOT, ON_DEMAND)
    snapshot = market(pair(own, own), [wants("vision", 2)], {"audio": 3})
    ends = NOW + timedelta(hours=2)
    snapshot = replace(
        snapshot, nodes=tuple(replace(node, leaves_at=ends) for node in snapshot.nodes)
    )
    plan = planned(snapshot)
    assert placed(plan) == {("vision", SPOT): 1}
    (refusal,) = plan.unplaced
    assert refusal.message.endswith(
        "Team vision has 7 cpu on on-demand and spot and owns 14; borrowed by others: audio 7; "
        "it gets its own as their work ends"
    )
    assert refusal.earliest_at == ends


def test_the_worked_example_of_the_documents() -> None:
    big = fx_type("big", 100, 100, pods=100)
    own = ResourceQuota((SPOT,), "cpu", 64_000)
    only_spot: Any = {
        "node_pools": (pool("default", markets(SPOT)),),
        "instance_types": (big,),
    }
    both = pair(own, own)
    audio = wants("audio", 16, requests=Resources.of({"cpu": 6_000}))
    vision = wants("vision", 8, requests=Resources.of({"cpu": 8_000}))
    first = market(both, [audio], **only_spot)
    assert placed(planned(first)) == {("audio", SPOT): 16}
    second = replace(after(first, planned(first)), demands=(vision,))
    plan = planned(second)
    assert (
        sum(each.count for on in plan.existing for each in on.placements)
        + sum(placed(plan).values())
        == 4
    )
    (refusal,) = plan.unplaced
    assert refusal.message.endswith(
        "Team vision has 32 cpu on spot and owns 64; borrowed by others: audio 32; it gets its own as their work ends"
    )


@dataclass(frozen=True)
class Owner:
    """A team of a small world, in whole nodes."""

    own: int
    wanted: int
    used: int
    weight: int
    limit: int | None
    lent: int | None

    @property
    def kept(self) -> int:
        return 0 if self.lent is None else max(0, self.own - self.lent)

    def quota(self) -> ResourceQuota:
        limit, lent = (None if it is None else it * NODE for it in (self.limit, self.lent))
        return ResourceQuota((ON_DEMAND, SPOT), "cpu", self.own * NODE, limit, lent)


_SOME = st.one_of(st.none(), st.integers(0, 3))
OWNERS = st.builds(
    Owner,
    st.integers(0, 3),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(1, 3),
    _SOME,
    _SOME,
).map(lambda it: replace(it, used=min(it.used, it.own)))


@given(st.lists(OWNERS, min_size=1, max_size=3))
def test_small_worlds_have_no_fairer_allocation(owners: list[Owner]) -> None:
    """All allocations: what is owned first, nothing idle that anybody may use, then the fairest loans."""
    names = [f"team-{number}" for number in range(len(owners))]
    everybody = sum(it.own for it in owners)
    teams = [
        team(name, it.quota(), weight=it.weight)
        for name, it in zip(names, owners, strict=True)
    ]
    demands = [
        wants(name, it.wanted) for name, it in zip(names, owners, strict=True) if it.wanted
    ]
    plan = planned(
        market(
            teams, demands, {name: it.used for name, it in zip(names, owners, strict=True)}
        )
    )
    new = placed(plan)
    found = tuple(
        it.used + new.get((name, SPOT), 0) + new.get((name, ON_DEMAND), 0)
        for name, it in zip(names, owners, strict=True)
    )

    def is_allowed(totals: tuple[int, ...]) -> bool:
        def lends(borrower: Owner, total: int) -> bool:
            others = sum(
                max(has, it.kept)
                for it, has in zip(owners, totals, strict=True)
                if it is not borrower
            )
            return total <= borrower.own or total + others <= everybody

        return sum(totals) <= everybody and all(
            total >= min(it.used + it.wanted, it.own)
            and (it.limit is None or total <= it.own + it.limit)
            and lends(it, total)
            for it, total in zip(owners, totals, strict=True)
        )

    def largest_loan(totals: tuple[int, ...]) -> Fraction:
        return max(
            Fraction(max(0, has - it.own), it.weight)
            for it, has in zip(owners, totals, strict=True)
        )

    allowed = set(
        filter(
            is_allowed, product(*(range(it.used, it.used + it.wanted + 1) for it in owners))
        )
    )
    assert found in allowed
    assert sum(found) == max(map(sum, allowed)), "nothing idles that anybody may use"
    for giver, taker in permutations(range(len(owners)), 2):
        moved = tuple(
            has - (index == giver) + (index == taker) for index, has in enumerate(found)
        )
        assert moved not in allowed or largest_loan(found) <= largest_loan(moved)


FLAVORS: Sequence[Sequence[tuple[CapacityType, ...]]] = (
    ((SPOT,), (ON_DEMAND,)),
    ((ON_DEMAND, SPOT),),
    ((SPOT,),),
)
QUOTAS = st.tuples(
    st.sampled_from(FLAVORS), st.integers(0, 3 * NODE), st.integers(0, 3 * NODE)
)
JOBS = st.lists(
    st.tuples(
        st.sampled_from(["audio", "vision", "of-no-team"]),
        st.integers(1, 4),
        st.integers(0, 1),
        st.sampled_from([NODE, NODE // 2, NODE // 3]),
    ),
    min_size=1,
    max_size=5,
)


@given(QUOTAS, QUOTAS, JOBS, JOBS)
def test_no_quota_is_exceeded_within_a_pass_or_between_passes(
    audio: Any, vision: Any, first: Any, second: Any
) -> None:
    """Several flavours, sizes and priorities; the checker judges every plan."""
    teams = [
        team(
            name,
            *(
                ResourceQuota(flavor, "cpu", amount)
                for flavor, amount in zip(flavors, amounts, strict=False)
            ),
        )
        for name, (flavors, *amounts) in (("audio", audio), ("vision", vision))
    ]
    snapshot = market(teams, _jobs("first", first))
    plan = solve(snapshot, now=NOW, policy=POLICY)
    assert not forbidden(snapshot, plan)
    then = replace(after(snapshot, plan), demands=tuple(_jobs("second", second)))
    assert not forbidden(then, solve(then, now=NOW, policy=POLICY))


def forbidden(snapshot: Snapshot, plan: Plan) -> list[Violation]:
    return [
        violation for violation in violations(snapshot, plan) if violation.forbids_commit
    ]


def _jobs(wave: str, jobs: Sequence[tuple[str, int, int, int]]) -> list[Demand]:
    return [
        wants(
            name,
            count,
            job=f"{wave}-{number}",
            priority=priority,
            requests=Resources.of({"cpu": cpu}),
        )
        for number, (name, count, priority, cpu) in enumerate(jobs)
    ]


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the world in which the plan was launched."""
    workloads = {demand.workload.key: demand.workload for demand in snapshot.demands}
    nodes = []
    for number, launch in enumerate(plan.launches):
        used = sum(
            (workloads[it.workload_key].requests * it.count for it in launch.placements),
            Resources.of({}),
        )
        pods = Resources.of({"pods": sum(it.count for it in launch.placements)})
        for copy in range(launch.count):
            made = node(
                f"n-{number}-{copy}", TYPE, capacity_type=launch.offering.capacity_type
            )
            nodes.append(replace(made, placements=launch.placements, used=used + pods))
    return replace(
        snapshot,
        nodes=(*snapshot.nodes, *nodes),
        workloads={**snapshot.workloads, **workloads},
    )


# -- the checker


def taken(snapshot: Snapshot, on: CapacityType, count: int) -> set[ViolationCode]:
    """Return what the checker says of a plan that gives all of a namespace's replicas nodes, made without teams."""
    plan = planned(replace(snapshot, teams=()))
    assert placed(plan) == {("audio", on): count}
    return {violation.code for violation in violations(snapshot, plan)}


@pytest.mark.parametrize(("nodes", "codes"), [(4, {ViolationCode.TEAM_QUOTA}), (5, set())])
def test_the_checker_forbids_more_than_a_quota(
    nodes: int, codes: set[ViolationCode]
) -> None:
    assert (
        taken(market([team("audio", quota(nodes, SPOT))], [wants("audio", 5)]), SPOT, 5)
        == codes
    )


def test_the_checker_forbids_what_is_not_lent() -> None:
    for lending, codes in ((1, {ViolationCode.TEAM_QUOTA}), (2, set())):
        teams = pair(quota(3, SPOT), quota(2, SPOT, lending_limit=lending))
        assert taken(market(teams, [wants("audio", 5)]), SPOT, 5) == codes
    beyond = pair(quota(3, SPOT, borrowing_limit=1), quota(2, SPOT))
    assert taken(market(beyond, [wants("audio", 5)]), SPOT, 5) == {ViolationCode.TEAM_QUOTA}


def test_whoever_is_beyond_a_quota_is_named_and_its_neighbours_are_not() -> None:
    """The planner leaves out whom a violation names, and plans the others."""
    demands = [
        wants("audio", 2),
        wants("audio", 1, job="other"),
        wants("vision", 2),
        wants("of-no-team", 1),
    ]
    snapshot = market(pair(quota(1, SPOT), quota(2, SPOT)), demands)
    (violation,) = violations(snapshot, planned(replace(snapshot, teams=())))
    assert (violation.subject, violation.workload_keys) == (
        "team audio",
        ("audio/job", "audio/other"),
    )
    lent = market(pair(quota(1, SPOT), quota(2, SPOT)), [wants("vision", 2)], {"audio": 3})
    (violation,) = violations(lent, planned(replace(lent, teams=())))
    assert violation.workload_keys == ("vision/job",), (
        "it has but its own, and what it would have is lent"
    )


def test_the_checker_reports_a_loan_while_its_owner_waits() -> None:
    own = quota(2, SPOT, ON_DEMAND)
    snapshot = market(pair(own, own), [wants("audio", 4), wants("vision", 2)])
    plan = planned(snapshot)
    (launch, *_) = plan.launches
    unfair = replace(launch, count=4, placements=(PlacedReplicas("audio/job", 1),))
    waiting = planned(
        market([team("vision", quota(0, SPOT, ON_DEMAND))], [wants("vision", 2)])
    ).unplaced
    cost = plan.cost_atto_usd_per_hour // sum(it.count for it in plan.launches) * 4
    wrong = replace(plan, launches=(unfair,), unplaced=waiting, cost_atto_usd_per_hour=cost)
    found = {
        violation.code
        for violation in violations(
            snapshot, replace(wrong, lower_bound_atto_usd_per_hour=None)
        )
    }
    assert found == {ViolationCode.TEAM_OWED}


def test_a_launch_does_not_fall_back_to_what_a_quota_bounds() -> None:
    snapshot = market([team("audio", quota(0, ON_DEMAND))], [wants("audio", 2)])
    plan = planned(snapshot)
    assert placed(plan) == {("audio", SPOT): 2}
    assert {
        key.capacity_type for launch in plan.launches for key in launch.alternatives
    } == {SPOT}
    free = planned(replace(snapshot, teams=()))
    assert {
        key.capacity_type for launch in free.launches for key in launch.alternatives
    } == {SPOT, ON_DEMAND}
    assert {violation.code for violation in violations(snapshot, free)} == {
        ViolationCode.TEAM_QUOTA
    }


def test_a_snapshot_with_quotas_of_resources_is_read_as_it_was_written() -> None:
    snapshot = market(
        [team("audio", quota(3, SPOT, ON_DEMAND, borrowing_limit=2))], [wants("audio", 1)]
    )
    assert loads(Snapshot, dumps(snapshot)) == snapshot


def test_withdrawn_work_counts_for_its_team_until_it_has_left_its_node() -> None:
    """Else withdrawing and asking again would run more than a quota, for as long as the notice lasts."""
    snapshot = market(
        [team("a", quota(2, SPOT, ON_DEMAND))], [wants("a", 2, job="again")], {"a": 2}
    )
    running = snapshot.nodes
    gone = tuple(
        replace(node, placements=(), used=Resources.of({}), deleting=True)
        for node in running
    )
    draining = tuple(
        replace(after, leaving=before.placements)
        for before, after in zip(running, gone, strict=True)
    )
    assert placed(planned(replace(snapshot, nodes=draining))) == {}
    assert placed(planned(replace(snapshot, nodes=gone))) == {("a", SPOT): 2}
