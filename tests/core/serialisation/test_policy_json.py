import json

import pytest

from reservoir.core.model.policy import MinValuesPolicy, SchedulingPolicy
from reservoir.core.serialisation.json_codec import CodecError
from reservoir.core.serialisation.policy_json import policy_from_json, policy_to_json


def test_a_policy_comes_back_without_its_deadline() -> None:
    policy = SchedulingPolicy(
        min_values_policy=MinValuesPolicy.BEST_EFFORT, spot_pool_share_percent=40
    )
    hurried = SchedulingPolicy(
        min_values_policy=MinValuesPolicy.BEST_EFFORT,
        spot_pool_share_percent=40,
        expired=lambda: True,
    )
    assert policy_from_json(policy_to_json(hurried)) == policy
    assert policy_to_json(hurried) == policy_to_json(policy)


def test_what_another_release_wrote_is_read() -> None:
    assert policy_from_json(
        '{"of_a_newer_release":1,"with_certificate":true}'
    ) == SchedulingPolicy(with_certificate=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"min_values_policy":"Lax"}',
        '{"with_certificate":"yes"}',
        '{"alternatives_max":true}',
    ],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(CodecError):
        policy_from_json(text)


def test_it_is_canonical() -> None:
    text = policy_to_json(SchedulingPolicy())
    assert text == json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)
    assert "expired" not in text
