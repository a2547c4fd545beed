"""How many units teams want: counted on nodes as their class launches them."""

from dataclasses import replace

from reservoir.core.model.node_class import KubeletAmounts, NodeClass
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.sharing.unit_wants import UnitWants
from tests.core.scheduler.world import pool
from tests.core.sharing.world import team, wants, world

FOUR_SMALL = wants("audio", 4, requests=Resources.of({"cpu": 1_000}))


def units(snapshot: Snapshot) -> dict[str, int]:
    return dict(UnitWants(snapshot).units(FOUR_SMALL.workload, 4))


def with_kubelet(snapshot: Snapshot, kubelet: KubeletAmounts) -> Snapshot:
    """The same, where the class says what is kept from replicas."""
    classes = tuple(replace(each, kubelet=kubelet) for each in snapshot.node_classes)
    return replace(snapshot, node_classes=classes)


def test_what_a_class_keeps_from_replicas_makes_more_units_of_them() -> None:
    snapshot = world((team("audio", 4),), (FOUR_SMALL,))
    assert units(snapshot) == {"cr-0": 1}
    assert units(with_kubelet(snapshot, KubeletAmounts(max_pods=2))) == {"cr-0": 2}
    kept = KubeletAmounts(reserved_cpu_millis=6_000)
    assert units(with_kubelet(snapshot, kept)) == {"cr-0": 4}


def test_a_reservation_that_no_class_leaves_room_in_is_wanted_by_nobody() -> None:
    snapshot = world((team("audio", 4),), (FOUR_SMALL,))
    kept = KubeletAmounts(reserved_cpu_millis=8_000)
    assert units(with_kubelet(snapshot, kept)) == {}


def test_of_two_classes_the_one_that_leaves_most_counts() -> None:
    snapshot = world((team("audio", 4),), (FOUR_SMALL,))
    narrow = with_kubelet(snapshot, KubeletAmounts(max_pods=1))
    (plain,) = snapshot.node_classes
    other: NodeClass = replace(plain, name="other")
    both = replace(
        narrow,
        node_classes=(*narrow.node_classes, other),
        node_pools=(
            *narrow.node_pools,
            replace(pool(name="wide"), node_class_name="other"),
        ),
    )
    assert units(both) == {"cr-0": 1}
