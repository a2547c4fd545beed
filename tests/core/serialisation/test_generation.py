from dataclasses import replace

from lab.fakes.values import workload
from reservoir.core.serialisation.generation import (
    StoredGeneration,
    content_digest,
    has_become,
    next_generation,
)

TRAIN = workload(replicas=3)
STORED = StoredGeneration(7, content_digest(TRAIN), withdrawn=False)


def test_what_nobody_has_sent_begins_at_one() -> None:
    assert next_generation(None, TRAIN) == 1


def test_the_same_content_keeps_its_generation_whatever_number_it_carries() -> None:
    assert next_generation(STORED, replace(TRAIN, generation=99)) == 7


def test_other_content_gets_the_next() -> None:
    assert next_generation(STORED, replace(TRAIN, replicas=4)) == 8


def test_what_was_withdrawn_is_wanted_anew_also_with_the_same_content() -> None:
    assert next_generation(replace(STORED, withdrawn=True), TRAIN) == 8


def test_a_withdraw_that_came_before_any_submit_is_passed() -> None:
    assert next_generation(StoredGeneration(3, None, withdrawn=True), TRAIN) == 4


def test_a_submit_is_pending_until_something_of_its_generation_is_stored() -> None:
    assert has_become(None, TRAIN, 7) is None
    assert has_become(replace(STORED, generation=6), TRAIN, 7) is None
    assert has_become(STORED, TRAIN, 7) is True


def test_a_submit_has_lost_to_other_content_a_higher_generation_or_a_withdraw() -> None:
    for stored, wanted in (
        (STORED, replace(TRAIN, replicas=4)),
        (replace(STORED, generation=8), TRAIN),
        (replace(STORED, withdrawn=True), TRAIN),
    ):
        assert has_become(stored, wanted, 7) is False
