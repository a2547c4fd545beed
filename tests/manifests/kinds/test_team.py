"""Quotas of a Team: of units, or of a resource on capacity types; what is neither is refused by name."""

from typing import Any

import pytest

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.team import Quota, ResourceQuota
from reservoir.manifests.kinds.team import TeamManifest
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.validate import read_document
from tests.manifests.kinds import valid

UNITS: dict[str, Any] = {
    "capacityReservationSelectorTerms": [{"id": "cr-0123456789abcdef0"}],
    "nominalQuota": 1,
}
VCPUS: dict[str, Any] = {"capacityTypes": ["spot"], "resource": "cpu", "nominalQuota": "64"}
QUOTAS = "spec.quotas"
NEITHER = "needs capacityReservationSelectorTerms (units), or capacityTypes and resource (an amount)"


def team(*quotas: dict[str, Any]) -> dict[str, Any]:
    manifest = valid.team()
    manifest["spec"]["quotas"] = list(quotas)
    return manifest


def problems(*quotas: dict[str, Any]) -> list[tuple[str, str]]:
    _, found = read_document(Document(team(*quotas)))
    return [(problem.path, problem.message) for problem in found]


def test_quotas_of_units_and_of_resources_arrive_in_the_core() -> None:
    memory = {
        "capacityTypes": ["spot"],
        "resource": "memory",
        "nominalQuota": "1Ti",
        "borrowingLimit": "512Gi",
    }
    gpus = {
        "capacityTypes": ["on-demand", "reserved"],
        "resource": "nvidia.com/gpu",
        "nominalQuota": 8,
    }
    found = TeamManifest.model_validate(
        team(UNITS, {**VCPUS, "lendingLimit": "500m"}, memory, gpus)
    ).to_core()
    assert [quota.nominal_units for quota in found.quotas if isinstance(quota, Quota)] == [
        1
    ]
    spot = (CapacityType.SPOT,)
    assert found.resource_quotas == (
        ResourceQuota(spot, "cpu", 64_000, None, 500),
        ResourceQuota(spot, "memory", 2**40, 2**39),
        ResourceQuota((CapacityType.ON_DEMAND, CapacityType.RESERVED), "nvidia.com/gpu", 8),
    )


@pytest.mark.parametrize(
    ("quota", "path", "message"),
    [
        (
            {**UNITS, "resource": "cpu"},
            "[0].capacityReservationSelectorTerms",
            "cannot be combined with resource",
        ),
        ({"nominalQuota": 1}, "[0]", NEITHER),
        ({"capacityTypes": ["spot"], "nominalQuota": 1}, "[0]", NEITHER),
        ({"resource": "cpu", "nominalQuota": 1}, "[0]", NEITHER),
        (
            {**UNITS, "nominalQuota": "1.5"},
            "[0].nominalQuota",
            "must be a whole number of units from 0 to 1000000",
        ),
        (
            {**UNITS, "borrowingLimit": -1},
            "[0].borrowingLimit",
            "must be a whole number of units from 0 to 1000000",
        ),
    ],
)
def test_what_is_no_quota_is_refused(
    quota: dict[str, Any], path: str, message: str
) -> None:
    assert (QUOTAS + path, message) in problems(quota)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"resource": "nvidia.com/gpu", "nominalQuota": "1500m"}, "[0].nominalQuota"),
        ({"lendingLimit": "many"}, "[0].lendingLimit"),
        ({"capacityTypes": ["spot", "spot"]}, "[0].capacityTypes"),
        ({"capacityTypes": ["cheap"]}, "[0].capacityTypes[0]"),
        ({"capacityTypes": []}, "[0].capacityTypes"),
        ({"nominalQuota": None}, "[0].nominalQuota"),
    ],
)
def test_amounts_and_capacity_types_are_read_strictly(
    change: dict[str, Any], path: str
) -> None:
    assert QUOTAS + path in [found for found, _ in problems({**VCPUS, **change})]


def test_quotas_of_resources_do_not_overlap() -> None:
    both = {**VCPUS, "capacityTypes": ["on-demand", "spot"]}
    assert problems(VCPUS, VCPUS) == [(QUOTAS, "two are about cpu on spot")]
    message = "one is about spot, another about on-demand and spot: these must be the same or apart"
    assert problems(VCPUS, both) == [(QUOTAS, message)]
    assert problems(VCPUS, {**both, "resource": "memory"}) == [(QUOTAS, message)]
    assert (
        problems(
            VCPUS,
            {**VCPUS, "resource": "memory"},
            {**VCPUS, "capacityTypes": ["on-demand"]},
            UNITS,
        )
        == []
    )
