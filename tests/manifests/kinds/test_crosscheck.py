from dataclasses import replace

import pytest

from lab.fakes.values import reservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    MachineImage,
    NodeClass,
    NodeClassStatus,
    SelectorTerm,
)
from reservoir.core.model.node_pool import NodePool, WarmReserved
from reservoir.core.model.team import Quota, Team
from reservoir.core.model.workload import FallbackStep, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, TaintEffect, Toleration
from reservoir.manifests.crosscheck import ObjectSet, cross_check
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.kinds.workload import WorkloadManifest
from tests.manifests.kinds import valid

RESERVATIONS = (CapacityReservationSelectorTerm(tags={"purpose": "training"}),)
NODE_CLASS = NodeClass("c", capacity_reservation_selector_terms=RESERVATIONS)
WORKLOAD = Workload("default", "w", 1, 1, Resources.of({}))


def requiring(*requirements: tuple[str, Operator, list[str]]) -> Requirements:
    return Requirements.of(*(Requirement.new(*requirement) for requirement in requirements))


def pool(*requirements: tuple[str, Operator, list[str]], name: str = "p") -> NodePool:
    return NodePool(name, "c", requiring(*requirements))


def only(capacity_type: str, name: str = "p") -> NodePool:
    return pool((labels.CAPACITY_TYPE, Operator.IN, [capacity_type]), name=name)


def doubts(world: ObjectSet) -> list[tuple[str, str]]:
    found = cross_check(world)
    assert all("can never launch because" in doubt.message for doubt in found)
    return [(f"{doubt.kind}/{doubt.name}", doubt.rule) for doubt in found]


def images(*architectures: str) -> NodeClass:
    found = tuple(
        MachineImage(f"ami-{architecture}", architecture) for architecture in architectures
    )
    return replace(NODE_CLASS, status=NodeClassStatus(machine_images=found))


def test_objects_that_fit_raise_no_doubt() -> None:
    assert doubts(ObjectSet([pool()], [NODE_CLASS], [WORKLOAD])) == []


def test_a_pool_whose_class_does_not_exist() -> None:
    (doubt,) = cross_check(
        ObjectSet([replace(pool(), node_class_name="gpuu")], [NodeClass("gpu")])
    )
    assert (doubt.rule, doubt.suggestion) == ("no-class", "gpu")
    assert doubt.path == ("spec", "template", "spec", "nodeClassRef", "name")


def test_requirements_that_leave_no_value() -> None:
    contradiction = pool(
        (labels.ZONE, Operator.IN, ["a"]), (labels.ZONE, Operator.NOT_IN, ["a"])
    )
    assert doubts(ObjectSet([contradiction], [NODE_CLASS])) == [("NodePool/p", "no-value")]


@pytest.mark.parametrize(
    ("allowed", "found", "expected"),
    [
        (["amd64"], ["arm64"], [("NodePool/p", "architecture")]),
        (["arm64"], ["amd64"], [("NodePool/p", "architecture")]),
        # it would quietly never launch ARM
        (["amd64", "arm64"], ["amd64"], [("NodePool/p", "architecture")]),
        (["amd64", "arm64"], ["amd64", "arm64"], []),
        (["amd64"], ["amd64", "arm64"], []),
        (["amd64"], [], []),  # not discovered yet: nothing is known
    ],
)
def test_images_of_the_wrong_architecture(
    allowed: list[str], found: list[str], expected: list[tuple[str, str]]
) -> None:
    assert (
        doubts(ObjectSet([pool((labels.ARCH, Operator.IN, allowed))], [images(*found)]))
        == expected
    )


def test_a_pool_that_says_nothing_about_architectures_takes_what_the_class_has() -> None:
    assert doubts(ObjectSet([pool()], [images("amd64")])) == []


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([SelectorTerm(ssm_parameter="/aws/service/app/x86_64/latest")], ["architecture"]),
        ([SelectorTerm(name="app-aarch64-*")], []),
        ([SelectorTerm(name="app-x86_64-*"), SelectorTerm(name="app-arm64-*")], []),
        ([SelectorTerm(name="app-x86_64-*"), SelectorTerm(name="app-*")], []),
        ([SelectorTerm(alias="al2023@latest")], []),
    ],
)
def test_before_discovery_the_names_of_images_tell_their_architecture(
    terms: list[SelectorTerm], expected: list[str]
) -> None:
    node_class = replace(NODE_CLASS, ami_selector_terms=tuple(terms))
    world = ObjectSet([pool((labels.ARCH, Operator.IN, ["arm64"]))], [node_class])
    assert [rule for _, rule in doubts(world)] == expected


def test_a_reserved_only_pool_whose_class_selects_no_reservation() -> None:
    assert doubts(ObjectSet([only("reserved")], [NodeClass("c")])) == [
        ("NodePool/p", "no-reservation")
    ]
    assert doubts(ObjectSet([pool()], [NodeClass("c")])) == []


def test_a_pool_that_names_a_reservation_and_excludes_reserved_capacity() -> None:
    contradiction = pool(
        (labels.CAPACITY_TYPE, Operator.IN, ["spot"]),
        (labels.CAPACITY_RESERVATION_ID, Operator.IN, ["cr-1"]),
    )
    world = ObjectSet([contradiction, only("reserved", "q")], [NODE_CLASS])
    assert doubts(world) == [("NodePool/p", "not-reserved")]


def test_selected_reservations_that_no_pool_may_use() -> None:
    assert doubts(ObjectSet([only("spot")], [NODE_CLASS])) == [
        ("EC2NodeClass/c", "reservations-unused")
    ]
    assert doubts(ObjectSet([only("spot"), only("reserved", "q")], [NODE_CLASS])) == []
    assert doubts(ObjectSet([], [NODE_CLASS])) == []


def test_a_ladder_that_names_what_every_pool_excludes() -> None:
    ladder = (FallbackStep(CapacityType.RESERVED, 60), FallbackStep(CapacityType.SPOT))
    workload = replace(WORKLOAD, fallback=ladder)
    (doubt,) = cross_check(ObjectSet([only("reserved")], [NODE_CLASS], [workload]))
    assert (doubt.rule, doubt.path) == ("ladder", ("spec", "fallback", 1))
    assert (
        doubts(ObjectSet([only("reserved"), only("spot", "q")], [NODE_CLASS], [workload]))
        == []
    )


@pytest.mark.parametrize(("name", "told"), [("web", []), ("other", ["no-pool"])])
def test_work_may_choose_nodes_by_their_class(name: str, told: list[str]) -> None:
    template = {"spec": {"nodeClassRef": {"name": "web"}, "requirements": []}}
    pool_manifest = valid.node_pool() | {"spec": {"template": template}}
    wanted = valid.workload()
    wanted["spec"] = {
        "replicas": 1,
        "resources": {"requests": {"cpu": "1"}},
        "nodeSelector": {labels.NODE_CLASS: name},
    }
    objects = ObjectSet(
        [NodePoolManifest.model_validate(pool_manifest).to_core()],
        [NodeClass("web")],
        [WorkloadManifest.model_validate(wanted).to_core()],
    )
    assert [each.rule for each in cross_check(objects)] == told


def test_a_workload_that_no_pool_can_serve_says_why_for_each() -> None:
    tainted = replace(pool(name="gpu"), taints=(Taint("gpu", "", TaintEffect.NO_SCHEDULE),))
    wanted = replace(WORKLOAD, node_selector=Requirements.from_labels({labels.ZONE: "a"}))
    elsewhere = pool((labels.ZONE, Operator.IN, ["b"]), name="other")
    (doubt,) = cross_check(ObjectSet([tainted, elsewhere], [NODE_CLASS], [wanted]))
    assert doubt.rule == "no-pool"
    assert "gpu: taint gpu:NoSchedule is not tolerated" in doubt.message
    assert (
        f"other: {labels.ZONE} In [b] does not meet {labels.ZONE} In [a]" in doubt.message
    )


def test_what_can_be_relaxed_is_no_doubt() -> None:
    soft = replace(pool(), taints=(Taint("a", "", TaintEffect.PREFER_NO_SCHEDULE),))
    one_of_two = replace(
        WORKLOAD,
        required_node_terms=(
            requiring((labels.ZONE, Operator.IN, ["nowhere"])),
            requiring((labels.ZONE, Operator.IN, ["a"])),
        ),
    )
    in_a = replace(soft, requirements=requiring((labels.ZONE, Operator.IN, ["a"])))
    assert doubts(ObjectSet([in_a], [NODE_CLASS], [one_of_two])) == []


def test_tolerated_taints_are_no_doubt() -> None:
    tainted = replace(pool(), taints=(Taint("a", "b"),), startup_taints=(Taint("booting"),))
    assert (
        doubts(
            ObjectSet(
                [tainted],
                [NODE_CLASS],
                [replace(WORKLOAD, tolerations=(Toleration("a", value="b"),))],
            )
        )
        == []
    )


def test_a_pool_that_misspells_a_label() -> None:
    misspelt = pool(
        ("topology.kubernetes.io/zon", Operator.IN, ["us-west-2a"]),
        ("team", Operator.EXISTS, []),
    )
    (doubt,) = cross_check(ObjectSet([misspelt], [NODE_CLASS]))
    assert (doubt.rule, doubt.suggestion) == ("custom-label", "topology.kubernetes.io/zone")


@pytest.mark.parametrize(
    "key", ["karpenter.azure.com/sku-family", "karpenter.k8s.gcp/instance-family"]
)
def test_a_pool_that_asks_by_the_label_of_another_cloud(key: str) -> None:
    foreign = pool((key, Operator.IN, ["D"]))
    (doubt,) = cross_check(ObjectSet([foreign], [NODE_CLASS]))
    assert doubt.rule == "custom-label"
    assert key in doubt.message


def test_a_workload_that_misspells_a_resource() -> None:
    workload = replace(
        WORKLOAD, requests=Resources.of({"nvidia.com/gpus": 8, "example.com/licence": 1})
    )
    (doubt,) = cross_check(ObjectSet([pool()], [NODE_CLASS], [workload]))
    assert (doubt.rule, doubt.suggestion) == ("resource", "nvidia.com/gpu")
    assert "can never launch because no instance type" in doubt.message


def test_no_more_than_a_hundred_doubts_are_told() -> None:
    pools = [
        replace(pool(name=f"p{number:03}"), node_class_name="absent")
        for number in range(150)
    ]
    found = cross_check(ObjectSet(pools, [NODE_CLASS]))
    assert [doubt.rule for doubt in found] == ["no-class"] * 100 + ["more"]


def test_more_workloads_and_pools_than_can_be_compared_are_told_so() -> None:
    pools = [pool(name=f"p{number:03}") for number in range(400)]
    workloads = [replace(WORKLOAD, name=f"w{number:03}") for number in range(400)]
    found = cross_check(ObjectSet(pools, [NODE_CLASS], workloads))
    assert [(doubt.name, doubt.rule) for doubt in found] == [
        ("default/w126", "not-checked")
    ]


def test_units_that_are_owned_twice_raise_a_doubt_and_as_many_as_there_are_do_not() -> None:
    term = CapacityReservationSelectorTerm(tags={"purpose": "training"})
    block = reservation("cr-1", total_count=8, tags={"purpose": "training"})

    def doubts(*owned: int) -> list[str]:
        teams = [
            Team(f"team-{number}", quotas=(Quota((term,), units),))
            for number, units in enumerate(owned)
        ]
        found = cross_check(ObjectSet(teams=teams, reservations=(block,)))
        return [doubt.message for doubt in found if doubt.rule == "quota-exceeds-units"]

    assert doubts(4, 4) == []
    assert doubts(4, 5) == [
        "of tag purpose training 9 units are owned (team-0 4, team-1 5), and there are 8"
    ]


def test_a_pool_of_a_team_that_does_not_exist_raises_a_doubt() -> None:
    found = cross_check(ObjectSet(teams=[Team("audio", node_pools=("gpu",))]))
    assert [(doubt.rule, doubt.name) for doubt in found] == [("no-node-pool", "audio")]


def test_a_pool_that_follows_reservations_and_has_none() -> None:
    following = replace(pool(), all_reserved=True)
    assert doubts(ObjectSet([following], [NODE_CLASS])) == []
    assert doubts(ObjectSet([following], [NodeClass("c")])) == [("NodePool/p", "no-units")]
    bought = replace(only("on-demand"), all_reserved=True)
    assert ("NodePool/p", "no-units") in doubts(ObjectSet([bought], [NODE_CLASS]))


def test_a_pool_that_keeps_units_warm_and_has_none() -> None:
    warming = replace(pool(), warm_reserved=WarmReserved())
    bought = replace(only("on-demand"), warm_reserved=WarmReserved(2))
    for asked, node_class, told in (
        (warming, NODE_CLASS, []),
        (warming, NodeClass("c"), ["no-units"]),
        (bought, NODE_CLASS, ["no-units"]),
    ):
        found = cross_check(ObjectSet([asked], [node_class]))
        assert [doubt.rule for doubt in found if "warm" in doubt.message] == told


GPU_TAINT = Taint("nvidia.com/gpu", TaintEffect.NO_SCHEDULE)


@pytest.mark.parametrize(
    "requirement",
    [
        (labels.INSTANCE_GPU_COUNT, Operator.GT, ["0"]),
        (labels.INSTANCE_ACCELERATOR_NAME, Operator.EXISTS, []),
        (labels.INSTANCE_CATEGORY, Operator.IN, ["g", "p"]),
        (labels.INSTANCE_FAMILY, Operator.IN, ["p5en", "trn2", "gr6"]),
        (labels.INSTANCE_TYPE, Operator.IN, ["inf2.xlarge"]),
        (labels.CAPACITY_RESERVATION_TYPE, Operator.IN, ["capacity-block"]),
    ],
)
def test_a_pool_of_accelerators_that_any_work_may_fill(
    requirement: tuple[str, Operator, list[str]],
) -> None:
    open_to_all = pool(requirement)
    (doubt,) = cross_check(ObjectSet([open_to_all], [NODE_CLASS]))
    assert doubt.rule == "no-taint"

    tainted = replace(open_to_all, taints=(GPU_TAINT,))
    assert not cross_check(ObjectSet([tainted], [NODE_CLASS]))


@pytest.mark.parametrize(
    "requirement",
    [
        (labels.INSTANCE_CATEGORY, Operator.IN, ["m", "p"]),
        (labels.INSTANCE_CATEGORY, Operator.NOT_IN, ["p"]),
        (labels.INSTANCE_FAMILY, Operator.IN, ["m5", "is4gen"]),
        (labels.INSTANCE_TYPE, Operator.IN, ["t3.large"]),
        (labels.INSTANCE_GPU_COUNT, Operator.DOES_NOT_EXIST, []),
        (labels.CAPACITY_RESERVATION_TYPE, Operator.IN, ["capacity-block", "default"]),
    ],
)
def test_a_pool_that_also_has_other_nodes_needs_no_taint(
    requirement: tuple[str, Operator, list[str]],
) -> None:
    assert "no-taint" not in [
        doubt.rule for doubt in cross_check(ObjectSet([pool(requirement)], [NODE_CLASS]))
    ]
