"""The models hold, and would say so if they did not."""

import pytest

from lab.formal import spin
from lab.formal.models import CASES, Case


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.mistake is None], ids=lambda case: case.shows
)
def test_no_order_of_steps_breaks_a_rule(case: Case) -> None:
    assert spin.search(case.model, case.defines).violation is None


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.mistake is not None],
    ids=lambda case: case.mistake,
)
def test_a_mistake_in_the_protocol_has_a_counter_example(case: Case) -> None:
    assert spin.search(case.model, case.defines).violation is not None
