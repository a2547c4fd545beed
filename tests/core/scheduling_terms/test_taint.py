import pytest

from reservoir.core.scheduling_terms.taint import (
    TOLERATE_ALL_PREFER_NO_SCHEDULE,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    binding_taints,
    tolerates_all,
)

GPU = Taint("nvidia.com/gpu", "true", TaintEffect.NO_SCHEDULE)
SOFT = Taint("soft", "", TaintEffect.PREFER_NO_SCHEDULE)
EVICT = Taint("evict", "now", TaintEffect.NO_EXECUTE)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("nvidia.com/gpu", TolerationOperator.EQUAL, "true"), True),
        (
            Toleration(
                "nvidia.com/gpu", TolerationOperator.EQUAL, "true", TaintEffect.NO_SCHEDULE
            ),
            True,
        ),
        (
            Toleration(
                "nvidia.com/gpu", TolerationOperator.EQUAL, "true", TaintEffect.NO_EXECUTE
            ),
            False,
        ),
        (Toleration("nvidia.com/gpu", TolerationOperator.EQUAL, "false"), False),
        (Toleration("nvidia.com/gpu", TolerationOperator.EXISTS), True),
        (Toleration("other", TolerationOperator.EXISTS), False),
        (Toleration("", TolerationOperator.EXISTS), True),
        (Toleration("", TolerationOperator.EXISTS, effect=TaintEffect.NO_EXECUTE), False),
    ],
)
def test_a_toleration_matches_as_in_kubernetes(
    toleration: Toleration, tolerates: bool
) -> None:
    assert toleration.tolerates(GPU) is tolerates


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    assert (
        tolerates_all(
            (GPU, EVICT, SOFT), (Toleration("nvidia.com/gpu", TolerationOperator.EXISTS),)
        )
        == EVICT
    )
    assert tolerates_all((GPU,), ()) == GPU
    assert tolerates_all((), ()) is None


def test_prefer_no_schedule_blocks_until_it_is_relaxed() -> None:
    assert tolerates_all((SOFT,), ()) == SOFT
    assert tolerates_all((SOFT,), (TOLERATE_ALL_PREFER_NO_SCHEDULE,)) is None
    assert tolerates_all((SOFT, EVICT), (TOLERATE_ALL_PREFER_NO_SCHEDULE,)) == EVICT


@pytest.mark.parametrize(
    "ephemeral",
    [
        Taint("node.kubernetes.io/not-ready", "", TaintEffect.NO_SCHEDULE),
        Taint("node.kubernetes.io/not-ready", "", TaintEffect.NO_EXECUTE),
        Taint("node.kubernetes.io/unreachable", "", TaintEffect.NO_SCHEDULE),
        Taint(
            "node.cloudprovider.kubernetes.io/uninitialized",
            "true",
            TaintEffect.NO_SCHEDULE,
        ),
        Taint("karpenter.sh/unregistered", "", TaintEffect.NO_EXECUTE),
        Taint("readiness.k8s.io/network", "", TaintEffect.NO_SCHEDULE),
    ],
)
def test_a_starting_node_is_not_blocked_by_taints_that_it_loses_by_itself(
    ephemeral: Taint,
) -> None:
    assert binding_taints((ephemeral, GPU), initialized=False) == (GPU,)
    assert binding_taints((ephemeral, GPU), initialized=True) == (ephemeral, GPU)


def test_startup_taints_count_only_after_initialisation() -> None:
    assert binding_taints((GPU, EVICT), (EVICT,), initialized=False) == (GPU,)
    assert binding_taints((GPU, EVICT), (EVICT,), initialized=True) == (GPU, EVICT)


def test_an_unreachable_node_that_evicts_is_not_ephemeral() -> None:
    taint = Taint("node.kubernetes.io/unreachable", "", TaintEffect.NO_EXECUTE)
    assert binding_taints((taint,), initialized=False) == (taint,)
