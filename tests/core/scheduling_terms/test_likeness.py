"""What tells values apart: everything but what is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from reservoir.core.scheduling_terms.likeness import Likeness


@dataclass(frozen=True)
class Crate:
    """Something with a short, a long and a mapped field, and one that follows from others."""

    name: str
    weight: int
    parts: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)
    mood: str = field(default="", compare=False)


ALIKE = Likeness(Crate, {"name": "it only names the crate"})
FIRST = Crate("first", 1, ("a", "b"), {"x": "1", "y": "2"})


def test_everything_counts_but_what_is_named() -> None:
    assert ALIKE.names == ("weight", "parts", "marks")
    assert ALIKE.key(replace(FIRST, name="other")) == ALIKE.key(FIRST)
    for other in (
        replace(FIRST, weight=2),
        replace(FIRST, parts=("a",)),
        replace(FIRST, marks={"x": "1"}),
    ):
        assert ALIKE.key(other) != ALIKE.key(FIRST)


def test_equals_have_one_number_whether_or_not_they_are_the_same_object() -> None:
    equal = Crate("second", 1, tuple("ab"), {"y": "2", "x": "1"})
    assert ALIKE.numbers(
        [FIRST, equal, replace(FIRST, weight=2), replace(FIRST, name="fourth")]
    ) == [0, 0, 1, 0]


def test_a_field_that_is_not_there_cannot_be_left_out() -> None:
    with pytest.raises(AssertionError, match="colour"):
        Likeness(Crate, {"colour": "nobody looks"})
