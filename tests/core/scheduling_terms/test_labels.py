import pytest

from reservoir.core.scheduling_terms import labels


@pytest.mark.parametrize(
    "key",
    [
        labels.ZONE,
        labels.CAPACITY_TYPE,
        labels.CAPACITY_RESERVATION_ID,
        labels.CAPACITY_RESERVATION_SETTING,
        "team",
        "example.com/team",
        "topology.kubernetes.io/rack",
        "node-role.kubernetes.io/worker",
        "a.k8s.io/x",
    ],
)
def test_keys_that_users_may_require(key: str) -> None:
    assert labels.restriction(key) is None


@pytest.mark.parametrize(
    "key",
    [
        labels.HOSTNAME,
        "karpenter.sh/custom",
        "karpenter.k8s.aws/custom",
        "sub.karpenter.sh/x",
    ],
)
def test_keys_that_are_reserved(key: str) -> None:
    assert labels.restriction(key) is not None


def test_a_domain_that_only_ends_alike_is_not_reserved() -> None:
    assert labels.restriction("mykarpenter.sh/x") is None


def test_the_closest_name_is_found_or_none() -> None:
    assert (
        labels.closest("karpenter.sh/capacity-typ", labels.WELL_KNOWN)
        == labels.CAPACITY_TYPE
    )
    assert labels.closest("nothing-like-it", labels.WELL_KNOWN) is None
    assert labels.closest(labels.ZONE, labels.WELL_KNOWN) is None
    assert labels.closest("x" * 10_000, labels.WELL_KNOWN) is None


def test_every_key_with_known_values_is_well_known() -> None:
    assert set(labels.KNOWN_VALUES) <= labels.WELL_KNOWN
