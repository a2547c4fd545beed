import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.scheduling_terms.requirement import (
    LARGEST_INTEGER,
    SMALLEST_INTEGER,
    Operator,
    Requirement,
    RequirementError,
)

KEY = "key"


def make(operator: Operator, *values: str, min_values: int | None = None) -> Requirement:
    return Requirement.new(KEY, operator, values, min_values)


EXISTS = make(Operator.EXISTS)
ABSENT = make(Operator.DOES_NOT_EXIST)
IN_A = make(Operator.IN, "A")
IN_B = make(Operator.IN, "B")
GT_1 = make(Operator.GT, "1")
LT_9 = make(Operator.LT, "9")

# A small universe makes collisions likely; it holds words, integers and odd spellings of integers.
tokens = st.sampled_from(["A", "B", "1", "2", "3", "9", "-4", "07", "+2", ""])
numbers = st.sampled_from(
    ["-4", "0", "1", "2", "3", "9", str(LARGEST_INTEGER), str(SMALLEST_INTEGER)]
)
sets = st.builds(
    Requirement.new,
    st.just(KEY),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(tokens, max_size=4),
    st.none() | st.integers(1, 5),
)
bounds = st.builds(
    Requirement.new,
    st.just(KEY),
    st.sampled_from([Operator.GT, Operator.LT, Operator.GTE, Operator.LTE]),
    st.tuples(numbers),
)
simple = sets | bounds | st.sampled_from([EXISTS, ABSENT])
requirements = simple | st.builds(Requirement.intersection, simple, simple)
UNIVERSE = [
    "A",
    "B",
    "C",
    "",
    "-5",
    "-4",
    "0",
    "1",
    "2",
    "3",
    "8",
    "9",
    "10",
    "07",
    "+2",
    "x1",
    str(LARGEST_INTEGER),
]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (
            make(Operator.NOT_IN, "A"),
            make(Operator.NOT_IN, "1", "2"),
            make(Operator.NOT_IN, "A", "1", "2"),
        ),
        (IN_A, IN_B, ABSENT),
        (make(Operator.IN, "A", "B"), make(Operator.NOT_IN, "A"), IN_B),
        (make(Operator.IN, "1", "9"), GT_1, make(Operator.IN, "9")),
        (make(Operator.IN, "1", "9"), LT_9, make(Operator.IN, "1")),
        (IN_A, GT_1, ABSENT),
        (GT_1, make(Operator.LT, "1"), ABSENT),
        (GT_1, LT_9, Requirement(KEY, True, frozenset(), 2, 8)),
        (EXISTS, GT_1, GT_1),
        (EXISTS, IN_A, IN_A),
        (EXISTS, ABSENT, ABSENT),
        (ABSENT, IN_A, ABSENT),
        (ABSENT, GT_1, ABSENT),
        (ABSENT, ABSENT, ABSENT),
        (
            make(Operator.NOT_IN, "1", "2"),
            GT_1,
            Requirement(KEY, True, frozenset({"2"}), 2, None),
        ),
    ],
)
def test_worked_intersections(
    left: Requirement, right: Requirement, expected: Requirement
) -> None:
    assert left.intersection(right) == expected
    assert right.intersection(left) == expected


@pytest.mark.parametrize(
    ("operator", "value", "gte", "lte"),
    [
        (Operator.GT, "5", 6, None),
        (Operator.GTE, "5", 5, None),
        (Operator.LT, "5", None, 4),
        (Operator.LTE, "5", None, 5),
        (Operator.GT, "-3", -2, None),
    ],
)
def test_bounds_are_inclusive_inside(
    operator: Operator, value: str, gte: int | None, lte: int | None
) -> None:
    requirement = make(operator, value)
    assert (requirement.complement, requirement.gte, requirement.lte) == (True, gte, lte)
    assert requirement.operator is Operator.EXISTS


def test_bounds_that_no_integer_can_meet_mean_does_not_exist_and_keep_min_values() -> None:
    above_all = make(Operator.GT, str(LARGEST_INTEGER), min_values=3)
    assert above_all.operator is Operator.DOES_NOT_EXIST
    assert above_all.min_values == 3
    assert make(Operator.LT, str(SMALLEST_INTEGER)).operator is Operator.DOES_NOT_EXIST


@pytest.mark.parametrize(
    "values",
    [(), ("1", "2"), ("A",), ("1.5",), ("\u0661",), ("1_0",), (" 1",), ("9" * 30,)],
)
def test_a_bound_needs_one_integer(values: tuple[str, ...]) -> None:
    with pytest.raises(RequirementError):
        make(Operator.GT, *values)


def test_the_larger_min_values_wins() -> None:
    both = make(Operator.EXISTS, min_values=2).intersection(
        make(Operator.IN, "A", min_values=5)
    )
    assert both.min_values == 5
    assert both.intersection(EXISTS).min_values == 5


def test_deprecated_keys_and_values_are_rewritten() -> None:
    assert Requirement.new(
        "beta.kubernetes.io/arch", Operator.IN, ["x86_64"]
    ) == Requirement.new("kubernetes.io/arch", Operator.IN, ["amd64"])
    assert Requirement.new(
        "failure-domain.beta.kubernetes.io/zone", Operator.EXISTS
    ).key == ("topology.kubernetes.io/zone")


def test_length_counts_allowed_values() -> None:
    assert len(EXISTS) == sys.maxsize
    assert len(make(Operator.NOT_IN, "A", "B")) == sys.maxsize - 2
    assert len(make(Operator.IN, "A", "B")) == 2
    assert len(ABSENT) == 0
    assert ABSENT  # a requirement is true as a fact even when it allows nothing


@pytest.mark.parametrize(
    ("requirement", "value"),
    [
        (make(Operator.IN, "b", "a"), "a"),
        (ABSENT, ""),
        (EXISTS, "0"),
        (make(Operator.NOT_IN, "0", "1"), "2"),
        (GT_1, "2"),
        (LT_9, "8"),
        (GT_1.intersection(make(Operator.NOT_IN, "2", "3")), "4"),
        (
            make(Operator.GT, "1")
            .intersection(make(Operator.LT, "3"))
            .intersection(make(Operator.NOT_IN, "2")),
            "",
        ),
    ],
)
def test_any_value_is_always_the_same_one(requirement: Requirement, value: str) -> None:
    assert requirement.any_value() == value


@pytest.mark.parametrize(
    ("requirement", "allows"),
    [
        (make(Operator.NOT_IN, "A"), True),
        (ABSENT, True),
        (IN_A, False),
        (EXISTS, False),
        (GT_1, False),
        (GT_1.intersection(make(Operator.NOT_IN, "2")), False),
    ],
)
def test_only_exclusions_and_does_not_exist_are_content_without_the_label(
    requirement: Requirement, allows: bool
) -> None:
    assert requirement.allows_absence is allows


def test_a_requirement_reads_as_a_sentence() -> None:
    assert str(make(Operator.IN, "b", "a")) == "key In [a, b]"
    assert str(GT_1.intersection(LT_9)) == "key Gte [2] and key Lte [8]"


@given(requirements, requirements)
def test_intersection_is_commutative(a: Requirement, b: Requirement) -> None:
    assert a.intersection(b) == b.intersection(a)


@given(requirements)
def test_intersection_is_idempotent(a: Requirement) -> None:
    assert a.intersection(a) == a


@given(requirements, requirements, requirements)
def test_intersection_is_associative(
    a: Requirement, b: Requirement, c: Requirement
) -> None:
    assert a.intersection(b).intersection(c) == a.intersection(b.intersection(c))


@given(requirements, requirements)
def test_has_intersection_says_whether_the_intersection_is_empty(
    a: Requirement, b: Requirement
) -> None:
    assert a.has_intersection(b) == (len(a.intersection(b)) > 0)
    assert a.has_intersection(b) == b.has_intersection(a)


@given(requirements, requirements, st.sampled_from(UNIVERSE))
def test_the_intersection_has_what_both_have(
    a: Requirement, b: Requirement, value: str
) -> None:
    assert a.intersection(b).has(value) == (a.has(value) and b.has(value))


@given(requirements)
def test_what_is_written_back_means_the_same(a: Requirement) -> None:
    parts = [
        Requirement.new(entry.key, entry.operator, entry.values, entry.min_values)
        for entry in a.to_entries()
    ]
    again = parts[0]
    for part in parts[1:]:
        again = again.intersection(part)
    assert again == a


@given(requirements)
def test_any_value_is_allowed_or_there_is_none(a: Requirement) -> None:
    value = a.any_value()
    assert a.has(value) or (value == "" and not any(a.has(str(n)) for n in range(-20, 20)))
