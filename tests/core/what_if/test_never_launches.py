"""Pools that can never launch, and the nearest that can."""

from dataclasses import replace
from typing import Any

import pytest

from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.what_if.never_launches import NeverLaunches, never_launching
from tests.core.scheduler.world import (
    ON_DEMAND,
    RESERVED,
    SPOT,
    fx_reserved,
    markets,
    node_class,
    one_of,
    plain,
    pool,
    reservation,
)


def reason(*pools: NodePool, **changes: Any) -> str | None:
    found = never_launching(replace(plain(), node_pools=pools, **changes))
    return found[0].reason if found else None


def test_a_pool_that_can_launch_is_not_told_of() -> None:
    assert never_launching(plain()) == ()
    assert never_launching(fx_reserved(pools=(pool("strict", markets(RESERVED)),))) == ()


def test_each_pool_is_told_with_its_reason() -> None:
    assert never_launching(
        replace(
            plain(),
            node_pools=(
                pool("b", class_name="other"),
                pool("a"),
                pool("c", class_name="defualt"),
            ),
        )
    ) == (
        NeverLaunches("b", "there is no EC2NodeClass other"),
        NeverLaunches("c", "there is no EC2NodeClass defualt; did you mean default?"),
    )


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            one_of(labels.INSTANCE_TYPE, "smal"),
            "no instance type has node.kubernetes.io/instance-type In [smal]; did you mean small?",
        ),
        (
            one_of(labels.ARCH, "sparc"),
            "no instance type has kubernetes.io/arch In [sparc]",
        ),
        (
            one_of(labels.ZONE, "zone-1z"),
            "its instance types are sold nowhere with topology.kubernetes.io/zone In [zone-1z]; did you mean zone-1?",
        ),
        (
            markets(RESERVED),
            "it uses reserved capacity only, and EC2NodeClass default selects no reservation of its types",
        ),
    ],
)
def test_what_nothing_has(wanted: Any, told: str) -> None:
    assert reason(pool("default", wanted)) == told


def test_a_reservation_that_its_class_cannot_reach_is_told_as_such() -> None:
    unit = reservation("cr-1", "small", 4, zone="zone-2", zone_id="id-zone-2")
    status = NodeClassStatus(
        reservation_ids=("cr-1",), subnets=(Subnet("subnet-1", "zone-1", "id-zone-1", 100),)
    )
    world = plain(reservations=[unit], node_pools=(pool("strict", markets(RESERVED)),))

    (found,) = never_launching(
        replace(world, node_classes=(NodeClass("default", status=status),))
    )

    assert found.reason == "class default has no subnet in zone-2, where cr-1 is"


def test_what_no_type_has_together() -> None:
    both = pool(
        "default", one_of(labels.INSTANCE_TYPE, "small"), one_of(labels.ARCH, "arm64")
    )
    assert (
        reason(both)
        == "no instance type meets all of its requirements together, though each of them is met by some"
    )


def test_what_is_sold_nowhere_together() -> None:
    both = pool("default", markets(SPOT), one_of(labels.ZONE, "zone-3"))
    assert reason(both) == (
        "its instance types are not sold in the zones, on the markets and in the reservations that it asks for together"
    )


def test_a_reservation_that_is_full_or_to_come_is_no_reason() -> None:
    full = reservation("r-1", "small", 2, free_units=0)
    coming = reservation("r-2", "small", 2, state="scheduled")
    for each in (full, coming):
        strict = plain(reservations=[each])
        assert (
            never_launching(
                replace(strict, node_pools=(pool("default", markets(RESERVED)),))
            )
            == ()
        )


def test_a_class_without_a_subnet_or_image_for_it() -> None:
    subnet = NodeClassStatus(subnets=(Subnet("subnet-1", "zone-2", "id-zone-2", 10),))
    in_one = pool("default", markets(ON_DEMAND), one_of(labels.ZONE, "zone-1"))
    with_subnet = replace(node_class(), status=subnet)
    assert reason(in_one, node_classes=(with_subnet,)) == (
        "EC2NodeClass default has no subnet in zone-1, where its instance types are sold"
    )
    image = NodeClassStatus(machine_images=(MachineImage("ami-1", "arm64"),))
    small = pool("default", one_of(labels.INSTANCE_TYPE, "small"))
    assert reason(small, node_classes=(replace(node_class(), status=image),)) == (
        "EC2NodeClass default has no image of the architecture of its instance types"
    )


def test_limits_below_every_type() -> None:
    none = pool("default", limits=Resources.of({"cpu": 1000}))
    assert reason(none) == "its limit of cpu (1) is below each of its instance types"
    assert reason(pool("default", limits=Resources.of({"nodes": 0}))) == (
        "its limit of nodes (0) is below each of its instance types"
    )
    assert reason(pool("default", limits=Resources.of({"cpu": 2000}))) is None


def test_without_a_catalogue_nothing_is_known() -> None:
    nothing = Snapshot(
        instance_types=(),
        node_pools=(pool("default", markets(RESERVED)),),
        node_classes=(node_class(),),
    )
    assert never_launching(nothing) == ()
