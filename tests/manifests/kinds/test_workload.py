from typing import Any

import pytest

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.workload import (
    AffinityTerm,
    FallbackStep,
    Gang,
    LabelSelector,
    LabelSelectorExpression,
    LabelSelectorOperator,
    PreferredNodeTerm,
    TopologySpreadConstraint,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import (
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from reservoir.manifests.kinds.workload import WorkloadManifest
from tests.manifests.kinds import valid

ZONE_A = Requirements.of(Requirement.new(labels.ZONE, Operator.IN, ["us-west-2a"]))
WEB = LabelSelector(
    (("app", "web"),), (LabelSelectorExpression("tier", LabelSelectorOperator.EXISTS),)
)


def with_spec(**fields: Any) -> dict[str, Any]:
    return valid.with_spec(valid.workload(), **fields)


def rolling(**bounds: Any) -> dict[str, Any]:
    """Fields of a service that is replaced node by node."""
    return {
        "gang": False,
        "gangTopologyKey": None,
        "strategy": {"rollingUpdate": bounds},
    }


def test_a_strategy_has_the_bounds_of_a_deployment_unless_it_says_others() -> None:
    def bounds(replicas: int, **given: Any) -> tuple[int, int]:
        core = WorkloadManifest.model_validate(with_spec(**rolling(**given))).to_core()
        assert core.rolling_update is not None
        return core.rolling_update.bounds(replicas)

    assert bounds(10) == (3, 2)  # 25 %, rounded up and down
    assert bounds(1) == (1, 0)
    assert bounds(10, maxSurge=0, maxUnavailable=4) == (0, 4)
    # which would let nothing go, so one may
    assert bounds(3, maxSurge=0, maxUnavailable="30%") == (0, 1)


@pytest.mark.parametrize("strategy", [None, {"type": "OnDelete"}])
def test_without_a_strategy_what_runs_stays(strategy: dict[str, Any] | None) -> None:
    core = WorkloadManifest.model_validate(with_spec(strategy=strategy)).to_core()
    assert core.rolling_update is None


def test_every_field_arrives_in_the_core() -> None:
    core = WorkloadManifest.model_validate(valid.workload()).to_core()
    assert (core.key, core.generation, core.replicas, core.priority) == (
        "shop/web",
        3,
        4,
        -5,
    )
    # a request wins over its limit, and a limit alone is a request
    assert core.requests == Resources.of({"cpu": 500, "memory": 2**30, "nvidia.com/gpu": 1})
    assert core.node_selector == Requirements.from_labels({labels.ARCH: "amd64"})
    assert core.required_node_terms == (ZONE_A, ZONE_A)
    assert core.preferred_node_terms == (PreferredNodeTerm(10, ZONE_A),)
    own_revision = LabelSelector((("app", "web"), ("rev", "7")), WEB.match_expressions)
    assert core.affinity == (
        AffinityTerm(labels.ZONE, own_revision, None, frozenset({"shop"})),
    )
    assert core.anti_affinity == (AffinityTerm(labels.HOSTNAME, LabelSelector(), 1),)
    assert core.tolerations == (
        Toleration(
            "nvidia.com/gpu", TolerationOperator.EXISTS, "", TaintEffect.NO_SCHEDULE
        ),
        Toleration(operator=TolerationOperator.EXISTS),
    )
    assert core.topology_spread == (
        TopologySpreadConstraint(
            labels.CAPACITY_TYPE,
            2,
            WEB,
            min_domains=2,
            node_taints_policy_honor=True,
            match_label_keys=("rev",),
        ),
    )
    assert core.gang == Gang(labels.ZONE)
    assert (core.duration_s, core.checkpoint_period_s) == (6 * 3600, 600)
    assert core.fallback == (
        FallbackStep(CapacityType.RESERVED, 7200),
        FallbackStep(CapacityType.ON_DEMAND),
    )
    assert core.max_price_micro_usd_per_hour == 98_320_000
    assert core.do_not_disrupt


def test_a_workload_needs_little() -> None:
    manifest = {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {},
    }
    core = WorkloadManifest.model_validate(manifest).to_core()
    assert (core.key, core.replicas, core.generation) == ("default/w", 1, 1)
    assert (core.requests, core.gang, core.fallback, core.do_not_disrupt) == (
        Resources.of({}),
        None,
        (),
        False,
    )


@pytest.mark.parametrize(
    ("price", "micro_usd"),
    [("98.32", 98_320_000), ("0.000001", 1), (12, 12_000_000), (0.1, 100_000)],
)
def test_prices_are_exact(price: Any, micro_usd: int) -> None:
    core = WorkloadManifest.model_validate(with_spec(maxPricePerHour=price)).to_core()
    assert core.max_price_micro_usd_per_hour == micro_usd


AFFINITY = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"replicas": -1}, ("spec.replicas", "greater-than-equal")),
        ({"replicas": 1_000_001}, ("spec.replicas", "less-than-equal")),
        ({"replicas": 2.0}, ("spec.replicas", "int-type")),
        ({"priority": 2**31}, ("spec.priority", "less-than-equal")),
        (
            {"resources": {"requests": {"cpu": "lots"}}},
            ("spec.resources.requests.cpu", "quantity"),
        ),
        (
            {"resources": {"requests": {"cpu": True}}},
            ("spec.resources.requests.cpu", "string-type"),
        ),
        (
            {"resources": {"requests": {"cpu": float("inf")}}},
            ("spec.resources.requests.cpu", "quantity"),
        ),
        (
            {"resources": {"requests": {"memory": "1e30"}}},
            ("spec.resources.requests.memory", "quantity"),
        ),
        (
            {"resources": {"requests": {"nvidia.com/gpu": "0.5"}}},
            ("spec.resources.requests", "quantity"),
        ),
        (
            {"resources": {"requests": {"": "1"}}},
            ("spec.resources.requests['']", "string-too-short"),
        ),
        (
            {"nodeSelector": {"kubernetes.io/hostname": "x"}},
            ("spec.nodeSelector['kubernetes.io/hostname']", "label-restricted"),
        ),
        (
            {"nodeSelector": {"kubernetes.io/arch": "amd"}},
            ("spec.nodeSelector", "label-value-unknown"),
        ),
        ({"tolerations": [{"value": "x"}]}, ("spec.tolerations[0].key", "toleration")),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            ("spec.tolerations[0].value", "toleration"),
        ),
        ({"gang": None}, ("spec.gangTopologyKey", "gang")),
        ({"gang": "true"}, ("spec.gang", "bool-type")),
        (
            {"gangTopologyKey": "kubernetes.io/hostname"},
            ("spec.gangTopologyKey", "literal-error"),
        ),
        ({"duration": "1d"}, ("spec.duration", "duration")),
        ({"duration": "99999999h"}, ("spec.duration", "duration")),
        (
            {"fallback": [{"capacityType": "spot"}, {"capacityType": "on-demand"}]},
            ("spec.fallback", "fallback"),
        ),
        (
            {"fallback": [{"capacityType": "spot", "for": "1h"}] * 2},
            ("spec.fallback", "fallback"),
        ),
        (
            {"fallback": [{"capacityType": "free"}]},
            ("spec.fallback[0].capacityType", "enum"),
        ),
        ({"maxPricePerHour": "-1"}, ("spec.maxPricePerHour", "price")),
        ({"maxPricePerHour": "1.0000001"}, ("spec.maxPricePerHour", "price")),
        ({"maxPricePerHour": "$5"}, ("spec.maxPricePerHour", "price")),
        ({"hostPorts": []}, ("spec.hostPorts", "unknown-field")),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": {}, "topologyKey": "rack"}
                        ]
                    }
                }
            },
            (f"{AFFINITY}.topologyKey", "topology-key"),
        ),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": labels.ZONE}
                        ]
                    }
                }
            },
            (f"{AFFINITY}.labelSelector", "missing"),
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": []
                        }
                    }
                }
            },
            (
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
                "too-short",
            ),
        ),
        (
            {
                "topologySpreadConstraints": [
                    {
                        "topologyKey": labels.ZONE,
                        "maxSkew": 0,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {},
                    }
                ]
            },
            ("spec.topologySpreadConstraints[0].maxSkew", "greater-than-equal"),
        ),
        (
            {
                "topologySpreadConstraints": [
                    {
                        "topologyKey": labels.ZONE,
                        "maxSkew": 1,
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "minDomains": 2,
                        "labelSelector": {},
                    }
                ]
            },
            ("spec.topologySpreadConstraints[0].minDomains", "spread"),
        ),
        ({"gang": True, "strategy": {}}, ("spec.strategy", "rolling-update")),
        (
            {
                "gang": False,
                "gangTopologyKey": None,
                "checkpointPeriod": "10m",
                "handover": None,
                "strategy": {},
            },
            ("spec.strategy", "rolling-update"),
        ),
        (
            rolling(maxSurge=0, maxUnavailable="0%"),
            ("spec.strategy.rollingUpdate.maxUnavailable", "rolling-update"),
        ),
        (
            rolling(maxSurge="a few"),
            ("spec.strategy.rollingUpdate.maxSurge", "rolling-update"),
        ),
        (
            {"strategy": {"type": "OnDelete", "rollingUpdate": {}}},
            ("spec.strategy.rollingUpdate", "rolling-update"),
        ),
        ({"strategy": {"type": "Recreate"}}, ("spec.strategy.type", "literal-error")),
    ],
)
def test_what_is_wrong_is_found_at_its_place(
    fields: dict[str, Any], problem: tuple[str, str]
) -> None:
    assert problem in valid.errors(with_spec(**fields))
