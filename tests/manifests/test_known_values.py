"""Values that EC2 does not have, as far as is known."""

import pytest

from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.manifests.crosscheck import ObjectSet, cross_check
from reservoir.manifests.known_values import of_catalogue, shipped
from tests.core.scheduler.world import fx_type, node_class, pool, workload


def doubts(
    key: str, *values: str, operator: Operator = Operator.IN
) -> list[tuple[str, str | None]]:
    wanted = pool("default", Requirement.new(key, operator, values))
    found = cross_check(ObjectSet([wanted], [node_class()], known=shipped()))
    return [
        (doubt.message, doubt.suggestion)
        for doubt in found
        if doubt.rule == "unknown-value"
    ]


@pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN])
def test_a_misspelt_type_has_a_nearest_one(operator: Operator) -> None:
    assert doubts(labels.INSTANCE_TYPE, "p5.48xlagre", operator=operator) == [
        (
            "node.kubernetes.io/instance-type 'p5.48xlagre' is not offered anywhere that this release knows of",
            "p5.48xlarge",
        )
    ]


def test_a_zone_that_no_region_has() -> None:
    ((message, suggestion),) = doubts(labels.ZONE, "us-east-1z", "us-east-1a")
    assert message.startswith("topology.kubernetes.io/zone 'us-east-1z' is not offered")
    assert suggestion is not None
    assert suggestion.startswith("us-east-1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (labels.INSTANCE_TYPE, "p5.48xlarge"),
        (labels.INSTANCE_TYPE, "z99.metal"),  # of a family that is newer than the list
        (labels.ZONE, "us-west-2-lax-1a"),  # a local zone
        (labels.REGION, "eu-central-1"),
        ("team", "anything"),
    ],
)
def test_what_may_be_is_not_doubted(key: str, value: str) -> None:
    assert doubts(key, value) == []


def test_a_catalogue_knows_its_own_values() -> None:
    known = of_catalogue([fx_type("small"), fx_type("large")])
    assert known is not None
    assert known.of(labels.INSTANCE_TYPE, "medium") == {"small", "large"}
    assert known.of(labels.ZONE_ID, "id-zone-9") == {"id-zone-1", "id-zone-2", "id-zone-3"}
    assert known.of(labels.INSTANCE_CPU, "7") == ()
    assert of_catalogue([]) is None


def test_workloads_are_compared_too() -> None:
    asking = workload(
        "job",
        node_selector=Requirements.of(
            Requirement.new(labels.ZONE, Operator.IN, ("us-east-1z",))
        ),
    )
    found = cross_check(ObjectSet([pool()], [node_class()], [asking], known=shipped()))
    assert [(doubt.kind, doubt.name, doubt.rule) for doubt in found] == [
        ("Workload", "ns/job", "unknown-value")
    ]
