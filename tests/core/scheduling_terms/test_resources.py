import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.scheduling_terms.quantity import QuantityError
from reservoir.core.scheduling_terms.resources import Resources

names = st.sampled_from(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "nvidia.com/gpu",
        "vpc.amazonaws.com/efa",
        "pods",
    ]
)
vectors = st.dictionaries(names, st.integers(0, 10**12)).map(Resources.of)


def test_units_are_millicores_bytes_and_counts() -> None:
    parsed = Resources.parse(
        {"cpu": "90", "memory": "1000Gi", "nvidia.com/gpu": 8, "hugepages-2Mi": "4Mi"}
    )
    assert dict(parsed) == {
        "cpu": 90_000,
        "memory": 1000 * 2**30,
        "nvidia.com/gpu": 8,
        "hugepages-2Mi": 4 * 2**20,
    }


def test_a_fraction_of_a_gpu_is_refused() -> None:
    with pytest.raises(QuantityError):
        Resources.parse({"nvidia.com/gpu": "0.5"})


def test_an_absent_resource_reads_zero_and_is_not_contained() -> None:
    resources = Resources.of({"cpu": 1})
    assert resources["memory"] == 0
    assert "memory" not in resources
    assert resources.get("memory") == 0


def test_a_zero_request_for_an_unknown_resource_fits_and_any_other_does_not() -> None:
    node = Resources.of({"cpu": 4000})
    assert Resources.of({"cpu": 4000, "nvidia.com/gpu": 0}).fits_in(node)
    assert not Resources.of({"nvidia.com/gpu": 1}).fits_in(node)


def test_nothing_fits_where_something_is_overdrawn() -> None:
    assert not Resources.of({"cpu": 1}).fits_in(Resources.of({"cpu": 10, "memory": -1}))


def test_a_limit_of_zero_is_not_the_absence_of_a_limit() -> None:
    assert "cpu" in Resources.parse({"cpu": 0})
    assert Resources.of({"cpu": 0}) != Resources.of({})


def test_equal_vectors_hash_alike_whatever_their_order() -> None:
    left = Resources.of({"cpu": 1, "memory": 2})
    right = Resources.of({"memory": 2, "cpu": 1})
    assert left == right
    assert hash(left) == hash(right)
    assert list(right) == ["cpu", "memory"]


@given(vectors, vectors, vectors)
def test_addition_laws(a: Resources, b: Resources, c: Resources) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert all((a + b - b)[name] == a[name] for name in a + b)
    assert a * 3 == a + a + a


@given(vectors, vectors)
def test_a_request_fits_exactly_when_nothing_is_missing(
    request: Resources, available: Resources
) -> None:
    missing = request.missing(available)
    assert request.fits_in(available) == (len(missing) == 0)
    assert request.fits_in(available + missing)


@given(vectors)
def test_a_vector_is_written_back_without_loss(vector: Resources) -> None:
    assert Resources.parse(vector.formatted()) == vector
