"""Accounts as nodes live: kept from facts and sweeps alike, read by budgets, told to teams."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from lab.fakes.manifests import team_manifest
from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from lab.fakes.values import node_claim, workload_record
from lab.worlds.policies import applier
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Ceiling, Team
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading
from reservoir.manifests.event_parts import Event
from reservoir.manifests.team_events import TeamOverBudget, TeamShareReported
from reservoir.usecases.accounting.keep_accounts import KeepAccounts
from reservoir.usecases.accounting.monthly_budgets import MonthlyBudgets
from reservoir.usecases.accounting.publish_team_shares import PublishTeamShares

HOUR: Final = timedelta(hours=1)
USD: Final = 10**6  # micro-USD
USD_AN_HOUR: Final = 10**18
DAY: Final = f"{START:%Y-%m-%d}"
BOUGHT: Final = CapacityType.ON_DEMAND


class World:
    """One team, `audio`, with one namespace of that name; nodes of it that cost a USD an hour."""

    def __init__(self, **budget: str) -> None:
        self.clock = ManualClock()
        self.state, self.store, self.accounts = (
            MemoryState(self.clock),
            MemoryPolicyStore(),
            MemoryAccounts(),
        )
        self.apply(
            team_manifest(
                "audio", namespaces=["audio"], **({"budget": budget} if budget else {})
            )
        )
        self.events: list[Event] = []
        self.keep = KeepAccounts(
            self.accounts, self.state.node_claims, self.store, self.clock
        )

    def apply(self, manifest: dict[str, Any]) -> None:
        import json

        applier(self.store).apply([("team.json", json.dumps(manifest))])

    def publish(self, events: list[Event]) -> None:
        self.events += events

    def node(
        self, name: str = "nc-1", namespace: str = "audio", **changes: Any
    ) -> NodeClaim:
        made = node_claim(name)
        claim = replace(
            made,
            state=ClaimState.RUNNING,
            instance_id=f"i-{name}",
            launched_at=self.clock.now(),
            placements=(PlacedReplicas(f"{namespace}/job", 1),),
            offering=replace(made.offering, capacity_type=BOUGHT, reservation_id=None),
            price_atto_usd_per_hour=USD_AN_HOUR,
            lease=None,
        )
        self.state.claim_rows[name] = replace(claim, **changes)
        return self.state.claim_rows[name]

    def end(self, claim: NodeClaim) -> None:
        now = self.clock.now()
        self.state.claim_rows[claim.id] = replace(
            claim,
            state=ClaimState.TERMINATED,
            terminated_at=now,
            ended_at=now,
            placements=(),
        )

    def published(self, ceiling: Ceiling | None = None) -> list[Event]:
        self.events = []
        PublishTeamShares(
            self.accounts,
            self.store,
            self.state.reservations,
            self.state.node_claims,
            self.state.workloads,
            self,  # type: ignore[arg-type] # the publisher
            self.clock,
            ceiling or Ceiling(),
        ).publish()
        return self.events

    def written(self) -> dict[str, int]:
        """Return seconds by namespace."""
        return {
            account.namespace: amount.seconds
            for account, amount in self.accounts.accounts(DAY[:7]).items()
        }


def test_facts_and_sweeps_count_a_node_once() -> None:
    world = World()
    claim = world.node()
    assert world.keep.note([claim.id]) == 1
    world.clock.advance(hours=1)
    assert world.keep.sweep() == 0, "nothing has changed"
    world.end(claim)
    assert world.keep.sweep() == 1, "its end was told to nobody"
    assert world.keep.note([claim.id, claim.id]) == 0
    assert world.written() == {"audio": 3600}


def test_a_node_of_which_nobody_told_is_found_and_counted_from_its_launch() -> None:
    world = World()
    claim = world.node()
    world.clock.advance(hours=1)
    world.keep.sweep()
    world.clock.advance(hours=1)
    world.end(claim)
    world.keep.note([claim.id])
    assert world.written() == {"audio": 7200}


def test_a_meter_that_cannot_be_read_stands_in_nobodys_way() -> None:
    world = World()
    names = [world.node(f"nc-{number}").id for number in range(3)]
    world.keep.note(names)
    world.accounts.unreadable.add("nc-1")
    world.clock.advance(hours=1)
    for name in names:
        world.end(world.state.claim_rows[name])
    assert world.keep.note(names[:2]) == 1
    assert world.keep.sweep() == 1
    assert world.written() == {"audio": 7200}
    world.accounts.unreadable.clear()
    assert world.keep.sweep() == 1, "it ran on"
    assert world.written() == {"audio": 10800}


def test_nodes_that_are_told_of_together_are_read_together() -> None:
    world = World()
    names = [world.node(f"nc-{number}").id for number in range(10)]
    counted = Counting(world.accounts, world.state.node_claims)
    assert (
        KeepAccounts(counted, counted, world.store, world.clock).note([*names, *names])
        == 10
    )
    assert counted.calls == {"get_many": 1, "meters_of": 1, "write_many": 1}


def test_the_end_of_a_day_is_written_down_for_a_hundred_nodes_together() -> None:
    world = World()
    for number in range(150):
        world.node(f"nc-{number:03}")
    world.keep.sweep()
    world.clock.advance(hours=24)
    counted = Counting(world.accounts, world.state.node_claims)
    assert KeepAccounts(counted, counted, world.store, world.clock).sweep() == 150
    assert counted.calls == {"list_live": 1, "meters": 1, "get_many": 2, "write_many": 2}


class Counting:
    """Two stores as one, which counts what is asked of them."""

    def __init__(self, *stores: object) -> None:
        self._stores, self.calls = stores, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return next(getattr(store, name) for store in self._stores if hasattr(store, name))


def test_namespaces_keep_the_team_that_they_had() -> None:
    world = World()
    claim = world.node()
    world.keep.sweep()
    world.clock.advance(hours=1)
    world.end(claim)
    world.keep.sweep()
    world.apply(team_manifest("audio", namespaces=["elsewhere"]))
    assert {account.team for account in world.accounts.accounts(DAY[:7])} == {"audio"}


def test_a_race_that_is_lost_counts_nothing_twice() -> None:
    world = World()
    claim = world.node()
    world.keep.sweep()
    world.clock.advance(hours=1)
    world.end(claim)
    write, other = (
        world.accounts.write,
        KeepAccounts(world.accounts, world.state.node_claims, world.store, world.clock),
    )
    calls: list[str] = []

    def race(claim_id: str, before: Meter | None, reading: MeterReading) -> None:
        if not calls:
            calls.append(claim_id)
            other.sweep()
        write(claim_id, before, reading)

    world.accounts.write = race  # type: ignore[method-assign] # somebody else is faster, once
    world.keep.sweep()
    assert world.written() == {"audio": 3600}


AUDIO: Final = Team(
    "audio",
    ("audio",),
    budget_micro_usd_per_hour=5 * USD,
    budget_micro_usd_per_month=100 * USD,
)


@pytest.mark.parametrize(
    ("spent_usd", "bound_usd"), [(0, 5), (95, 5), (97, 3), (100, 0), (200, 0)]
)
def test_what_is_left_of_a_month_bounds_an_hour(spent_usd: int, bound_usd: int) -> None:
    accounts = MemoryAccounts()
    account = AccountLine(DAY, "audio", "audio", BOUGHT)
    accounts.write(
        "nc-1", None, MeterReading({account: Amount(3600, spent_usd * USD_AN_HOUR)}, None)
    )
    teams, ceiling = MonthlyBudgets(accounts, Ceiling(None, 300 * USD)).bounds(
        [AUDIO, Team("vision")], START
    )
    assert [team.budget_micro_usd_per_hour for team in teams] == [bound_usd * USD, None]
    assert ceiling == (300 - spent_usd) * USD


def test_what_runs_now_counts_to_the_second() -> None:
    accounts = MemoryAccounts()
    accounts.write(
        "nc-1",
        None,
        MeterReading(
            {}, Meter("nc-1", START, START, BOUGHT, 60 * USD_AN_HOUR, {"audio": 1})
        ),
    )
    monthly = replace(AUDIO, budget_micro_usd_per_hour=None)
    ((team,), _) = MonthlyBudgets(accounts).bounds([monthly], START + timedelta(seconds=90))
    assert team.budget_micro_usd_per_hour == 98_500_000


def test_last_months_money_is_spent() -> None:
    accounts = MemoryAccounts()
    december = AccountLine("2025-12-31", "audio", "audio", BOUGHT)
    accounts.write("nc-1", None, MeterReading({december: Amount(1, 10**30)}, None))
    ((team,), _) = MonthlyBudgets(accounts).bounds([AUDIO], START)
    assert team.budget_micro_usd_per_hour == 5 * USD


def test_without_monthly_budgets_no_account_is_read() -> None:
    hourly = replace(AUDIO, budget_micro_usd_per_month=None)
    assert MonthlyBudgets(None, Ceiling(7)).bounds([hourly], START) == ((hourly,), 7)


def test_without_teams_and_ceiling_there_is_nothing_to_tell() -> None:
    world = World()
    world.store = MemoryPolicyStore()
    assert world.published() == []


def test_a_team_is_told_what_it_spends_and_what_that_comes_to() -> None:
    world = World(usdPerMonth="300")
    world.node()
    world.keep.sweep()
    world.clock.advance(hours=1)
    share, over = world.published()
    assert isinstance(share, TeamShareReported)
    assert (share.spent_micro_usd, share.micro_usd_per_hour) == (USD, USD)
    hours_left = 24 * 16 + 11  # from 13:00 on the 15th
    assert share.forecast_micro_usd == (1 + hours_left) * USD
    assert isinstance(over, TeamOverBudget)
    assert (over.team, over.period, over.limit_micro_usd) == ("audio", "month", 300 * USD)
    assert (over.spent_micro_usd, over.forecast_micro_usd, over.waiting_replicas) == (
        USD,
        396 * USD,
        0,
    )


def test_a_team_is_told_what_it_requests_of_what_it_has_a_quota_for() -> None:
    world = World()
    quota = {"capacityTypes": [BOUGHT.value], "resource": "cpu"}
    for name, nominal in (("audio", "4"), ("vision", "8")):
        world.apply(
            team_manifest(
                name, namespaces=[name], quotas=[{**quota, "nominalQuota": nominal}]
            )
        )
    record = workload_record(
        namespace="audio", name="job", requests=Resources.of({"cpu": 6_000})
    )
    world.state.workload_rows[record.key] = record
    world.node()
    shares = {
        share.team: share.resources
        for share in world.published()
        if isinstance(share, TeamShareReported)
    }
    (audio,), (vision,) = shares["audio"], shares["vision"]
    assert (audio.capacity_types, audio.resource, audio.nominal, audio.used) == (
        ["on-demand"],
        "cpu",
        "4",
        "6",
    )
    assert (audio.borrowed, audio.borrowers) == ("2", {})
    assert (vision.used, vision.borrowed, vision.borrowers) == ("0", "0", {"audio": "2"})


def test_who_waits_for_a_budget_is_told() -> None:
    world = World(usdPerHour="1")
    record = workload_record(namespace="audio", replicas=3)
    waits = UnplacedReplicas(record.key, 3, ReasonCode.TEAM_BUDGET, "no money")
    world.state.workload_rows[record.key] = replace(
        record, unplaced=(waits,), pending_since=START
    )
    told = [
        event
        for event in world.published(Ceiling(9 * USD))
        if isinstance(event, TeamOverBudget)
    ]
    assert [(event.team, event.period, event.waiting_replicas) for event in told] == [
        ("audio", "hour", 3)
    ]


def test_a_ceiling_is_everybodys() -> None:
    world = World()
    for number in range(3):
        world.node(f"nc-{number}", "of-no-team")
    world.keep.sweep()
    (over,) = [
        event
        for event in world.published(Ceiling(2 * USD))
        if isinstance(event, TeamOverBudget)
    ]
    assert (over.team, over.limit_micro_usd, over.spent_micro_usd) == (
        None,
        2 * USD,
        3 * USD,
    )
