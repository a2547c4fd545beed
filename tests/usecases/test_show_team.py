"""What is shown of a team: who its principals are, and what it uses of what it owns."""

import json
from dataclasses import replace
from typing import Any

from lab.fakes.manifests import team_manifest
from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from lab.fakes.values import node_claim, reservation, workload_record
from lab.worlds.policies import applier
from reservoir.core.capacity.ledger import Balance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.sharing.accounts import AccountLine, Amount, MeterReading
from reservoir.ports.policy import PolicyKind
from reservoir.ports.state import ReservationRecord
from reservoir.usecases.policy.show_policy import ShowPolicy


def team(name: str, nominal: int) -> dict[str, Any]:
    quota = {
        "capacityReservationSelectorTerms": [{"tags": {"purpose": "training"}}],
        "nominalQuota": nominal,
    }
    return team_manifest(name, namespaces=[name], quotas=[quota])


def test_a_team_shows_what_it_owns_uses_borrows_and_has_lent() -> None:
    clock = ManualClock()
    state, store = MemoryState(clock), MemoryPolicyStore()
    files = [
        (name, json.dumps(team(name, nominal)))
        for name, nominal in (("research", 1), ("vision", 3))
    ]
    applier(store).apply(files)
    block = reservation(tags={"purpose": "training"}, available_count=1, free_units=1)
    state.reservation_rows[block.id] = ReservationRecord(block, Balance(1, 0), START)
    record = workload_record()
    state.workload_rows[record.key] = record
    placements = (PlacedReplicas(record.key, 1),)
    for number in range(3):
        claim = replace(
            node_claim(f"nc-{number}"), state=ClaimState.RUNNING, placements=placements
        )
        state.claim_rows[claim.id] = claim

    shown = ShowPolicy(
        store, state.reservations, state.node_claims, state.workloads, clock
    ).show(PolicyKind.TEAM)
    assert [row["status"]["quotas"][0].get("borrowers") for row in shown] == [
        None,
        [{"team": "research", "units": 2}],
    ]
    assert "backAt" not in shown[1]["status"]["quotas"][0], "its work says no duration"
    counts = {
        row["metadata"]["name"]: {
            key: value
            for key, value in row["status"]["quotas"][0].items()
            if "Units" in key
        }
        for row in shown
    }
    assert counts == {
        "research": {
            "nominalUnits": 1,
            "usedUnits": 3,
            "borrowedUnits": 2,
            "lentUnits": 0,
            "totalUnits": 4,
        },
        "vision": {
            "nominalUnits": 3,
            "usedUnits": 0,
            "borrowedUnits": 0,
            "lentUnits": 2,
            "totalUnits": 4,
        },
    }


def test_a_team_shows_when_its_units_come_back_and_what_was_spent() -> None:
    clock = ManualClock()
    state, store, accounts = MemoryState(clock), MemoryPolicyStore(), MemoryAccounts()
    applier(store).apply(
        [
            (name, json.dumps(team(name, nominal)))
            for name, nominal in (("research", 0), ("vision", 1))
        ]
    )
    block = reservation(tags={"purpose": "training"}, available_count=0, free_units=0)
    state.reservation_rows[block.id] = ReservationRecord(block, Balance(0, 0), START)
    record = workload_record(duration_s=7200)
    state.workload_rows[record.key] = record
    running = replace(
        node_claim("nc-1"),
        state=ClaimState.RUNNING,
        placements=(PlacedReplicas(record.key, 1),),
    )
    state.claim_rows[running.id] = replace(running, running_at=START)
    account = AccountLine(
        f"{START:%Y-%m-%d}", "research", "research", CapacityType.ON_DEMAND
    )
    accounts.write("nc-9", None, MeterReading({account: Amount(90, 25 * 10**17)}, None))

    show = ShowPolicy(
        store, state.reservations, state.node_claims, state.workloads, clock, accounts
    )
    research, vision = (row["status"] for row in show.show(PolicyKind.TEAM))
    assert vision["quotas"][0]["backAt"] == "2026-01-15T14:00:00Z"
    assert research["spending"] == {
        "month": "2026-01",
        "spent": "2.50 USD",
        "forecast": "2.50 USD",
        "perHour": "0.00 USD",
        "namespaces": [
            {
                "namespace": "research",
                "capacityType": "on-demand",
                "instanceSeconds": 90,
                "spent": "2.50 USD",
            }
        ],
    }


def test_a_team_shows_what_it_requests_of_its_quotas_of_resources() -> None:
    clock = ManualClock()
    state, store = MemoryState(clock), MemoryPolicyStore()
    manifests = {name: team(name, 0) for name in ("research", "vision")}
    for manifest, amount in zip(manifests.values(), ("500m", "4"), strict=True):
        quota = {
            "capacityTypes": ["on-demand", "spot"],
            "resource": "cpu",
            "nominalQuota": amount,
        }
        manifest["spec"]["quotas"] = [quota]
    applier(store).apply(
        [(name, json.dumps(manifest)) for name, manifest in manifests.items()]
    )
    record = workload_record(duration_s=7200)
    state.workload_rows[record.key] = record
    made = node_claim("nc-1")
    on_demand = replace(
        made.offering, capacity_type=CapacityType.ON_DEMAND, reservation_id=None
    )
    running = replace(
        made,
        state=ClaimState.RUNNING,
        placements=(PlacedReplicas(record.key, 1),),
        running_at=START,
    )
    state.claim_rows[made.id] = replace(running, offering=on_demand, lease=None)

    shown = ShowPolicy(
        store, state.reservations, state.node_claims, state.workloads, clock
    ).show(PolicyKind.TEAM)
    about = {"capacityTypes": ["on-demand", "spot"], "resource": "cpu"}
    assert [row["status"]["resourceQuotas"] for row in shown] == [
        [{**about, "nominal": "500m", "used": "90", "borrowed": "89500m"}],
        [
            {
                **about,
                "nominal": "4",
                "used": "0",
                "borrowed": "0",
                "borrowers": [{"team": "research", "amount": "89500m"}],
                "backAt": "2026-01-15T14:00:00Z",
            }
        ],
    ]
