import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements

new = Requirement.new
TEAM = Requirements.from_labels({"team": "red"})

keys = st.sampled_from(["k1", "k2", "k3"])
operators = st.sampled_from(
    [Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]
)
single = st.builds(
    Requirement.new,
    keys,
    operators,
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3),
)
sets = st.lists(single, max_size=4).map(lambda listed: Requirements.of(*listed))


def test_a_missing_key_reads_exists() -> None:
    assert TEAM["other"] == new("other", Operator.EXISTS)
    assert "other" not in TEAM
    assert TEAM.get("other") is None


def test_adding_a_requirement_on_a_present_key_intersects() -> None:
    both = Requirements.of(new("k", Operator.IN, ["a", "b"])).add(
        new("k", Operator.NOT_IN, ["a"])
    )
    assert both["k"] == new("k", Operator.IN, ["b"])
    assert len(both) == 1


@pytest.mark.parametrize(
    ("operator", "schedulable"),
    [
        (Operator.IN, False),
        (Operator.EXISTS, False),
        (Operator.NOT_IN, True),
        (Operator.DOES_NOT_EXIST, True),
    ],
)
# S-142
def test_a_key_that_the_pool_does_not_define(operator: Operator, schedulable: bool) -> None:
    wanted = Requirements.of(new("team", operator, ["red"]))
    assert (Requirements.of().compatible(wanted, labels.WELL_KNOWN) is None) is schedulable


@pytest.mark.parametrize(
    ("operator", "value", "schedulable"),
    [
        (Operator.IN, "red", True),
        (Operator.IN, "blue", False),
        (Operator.NOT_IN, "red", False),
        (Operator.NOT_IN, "blue", True),
        (Operator.EXISTS, "", True),
        (Operator.DOES_NOT_EXIST, "", False),
    ],
)
# S-143
def test_a_key_that_the_pool_defines(
    operator: Operator, value: str, schedulable: bool
) -> None:
    assert (
        TEAM.compatible(Requirements.of(new("team", operator, [value]))) is None
    ) is schedulable


#
def test_well_known_keys_may_be_undefined_on_new_claims_but_not_on_existing_nodes() -> None:
    wanted = Requirements.from_labels({labels.ZONE: "us-west-2a"})
    assert Requirements.of().compatible(wanted, labels.WELL_KNOWN) is None
    assert (
        Requirements.of().compatible(wanted) == f"label {labels.ZONE} has no known values"
    )


def test_two_exclusions_never_conflict() -> None:
    absent = Requirements.of(new("k", Operator.DOES_NOT_EXIST))
    assert absent.compatible(absent) is None
    assert absent.compatible(Requirements.of(new("k", Operator.NOT_IN, ["a"]))) is None
    assert absent.compatible(Requirements.of(new("k", Operator.EXISTS))) is not None


def test_a_misspelt_key_gets_a_hint() -> None:
    reason = Requirements.of().compatible(
        Requirements.from_labels({"topology.kubernetes.io/zon": "us-west-2a"}),
        labels.WELL_KNOWN,
    )
    assert (
        reason
        == "label topology.kubernetes.io/zon has no known values; did you mean topology.kubernetes.io/zone?"
    )


def test_the_reason_names_both_sides() -> None:
    assert (
        TEAM.compatible(Requirements.from_labels({"team": "blue"}))
        == "team In [red] does not meet team In [blue]"
    )


def test_labels_are_the_keys_with_one_value() -> None:
    mixed = TEAM.add(
        new("k", Operator.IN, ["a", "b"]),
        new("gone", Operator.DOES_NOT_EXIST),
        new("x", Operator.EXISTS),
    )
    assert mixed.labels() == {"team": "red"}


def test_equal_sets_hash_alike_whatever_their_order() -> None:
    left = Requirements.from_labels({"a": "1", "b": "2"})
    right = Requirements.from_labels({"b": "2", "a": "1"})
    assert left == right
    assert hash(left) == hash(right)
    assert list(right) == ["a", "b"]


def test_without_forgets_keys() -> None:
    assert Requirements.from_labels({"a": "1", "b": "2"}).without(
        {"a", "z"}
    ) == Requirements.from_labels({"b": "2"})


@given(sets, sets)
def test_merging_is_commutative_and_idempotent(a: Requirements, b: Requirements) -> None:
    assert a.merged(b) == b.merged(a)
    assert a.merged(a) == a
    assert a.merged(b).merged(b) == a.merged(b)


@given(sets, sets)
def test_intersecting_is_symmetric(a: Requirements, b: Requirements) -> None:
    assert (a.intersects(b) is None) == (b.intersects(a) is None)


complete = st.fixed_dictionaries(
    {key: st.sampled_from(["a", "b", "c"]) for key in ("k1", "k2", "k3")}
)


@given(sets, sets, complete)
def test_a_node_meets_a_merger_exactly_when_it_meets_both(
    a: Requirements, b: Requirements, node: dict[str, str]
) -> None:
    # Only for nodes that have the labels: Exists merged with NotIn is NotIn, and forgets that one must exist.
    described = Requirements.from_labels(node)
    both = described.compatible(a) is None and described.compatible(b) is None
    assert (described.compatible(a.merged(b)) is None) == both


@given(sets, sets)
def test_allowing_more_undefined_keys_never_makes_incompatible(
    a: Requirements, b: Requirements
) -> None:
    if a.compatible(b) is None:
        assert a.compatible(b, {"k1", "k2", "k3"}) is None


@given(sets, sets, st.sets(keys))
def test_admitting_is_having_no_reason_against(
    a: Requirements, b: Requirements, undefined: set[str]
) -> None:
    assert a.admits(b, undefined) == (a.compatible(b, undefined) is None)
