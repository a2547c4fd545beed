"""Prices move while nodes run: what disruption compares is priced at one moment."""

from collections.abc import Mapping
from dataclasses import replace

from lab.worlds.disrupt_world import TYPES, DisruptWorld
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import ClaimState


def with_spot_prices(of_type: Mapping[str, int]) -> tuple[InstanceType, ...]:
    """The catalogue with other spot prices, in micro-USD an hour."""
    return tuple(
        replace(
            kind,
            offerings=tuple(
                replace(it, price_micro_usd_per_hour=of_type[kind.name])
                if it.capacity_type is CapacityType.SPOT and kind.name in of_type
                else it
                for it in kind.offerings
            ),
        )
        for kind in TYPES
    )


def test_a_job_stays_in_its_reservation_however_spot_prices_fall() -> None:
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", gpus=8)
    world.minutes(2)
    world.add_reservation("cr-2", total_count=1)  # its equal, with a free unit
    for cheapest in (16_000, 10_000):
        world.state.offerings.save_catalogue(with_spot_prices({"m5.large": cheapest}))
        world.minutes(3)

    assert [claim.offering.reservation_id for claim in world.live()] == ["cr-1"]
    assert len(world.ec2.all()) == 1


def test_a_spot_node_moves_once_on_demand_is_cheaper() -> None:
    world = DisruptWorld("spot", "on-demand")
    world.submit("web", cpus=1)
    world.minutes(3)
    world.state.offerings.save_catalogue(
        with_spot_prices({kind.name: 10**9 for kind in TYPES})
    )
    world.minutes(5)

    assert [claim.offering.capacity_type for claim in world.live()] == [
        CapacityType.ON_DEMAND
    ]


def test_a_replacement_is_given_up_if_what_it_replaces_is_cheaper_again() -> None:
    world = DisruptWorld("spot", "on-demand")
    world.submit("web", cpus=1)
    world.minutes(3)
    (old,) = world.live()
    world.state.offerings.save_catalogue(
        with_spot_prices({kind.name: 10**9 for kind in TYPES})
    )
    world.minute()  # an on-demand node is launched; the spot node waits for it
    world.state.offerings.save_catalogue(TYPES)
    report = world.minute()

    assert (report.abandoned, world.state.claim_rows[old.id].state) == (
        1,
        ClaimState.RUNNING,
    )
    assert world.reason(old.id) == "its replacements are no cheaper any more: it stays"

    world.minutes(2)
    rows = world.state.claim_rows.values()
    replacements = [claim for claim in rows if old.id in claim.replaces]
    assert [claim.expected for claim in replacements] == [()], "its room is anybody's again"
