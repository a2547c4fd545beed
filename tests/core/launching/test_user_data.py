"""Placeholders in user data: what they become, and what nobody can have them become."""

import base64
import json
import subprocess
import tomllib
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.system import START
from lab.worlds.launch_world import CATALOGUE, World, node_class, on_demand
from reservoir.core.launching.launch_request import LaunchFacts, build_launch_request
from reservoir.core.launching.launch_template import NodeClassUnlaunchableError
from reservoir.core.launching.user_data import PLACEHOLDERS, filled, wrong_placeholders
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas

VALUES = {
    "nodePool": "training",
    "reportsQueueUrl": "https://sqs.us-east-1.amazonaws.com/1/Reports_x",
}
EVERY_PLAIN_CHARACTER = "AZaz09./:_-"
HOSTILE = [
    "a b",
    "a\nreboot",
    "$(reboot)",
    "`reboot`",
    "a;reboot",
    "a'b",
    'a"b',
    "a\\b",
    "a\x00b",
    "",
    "{{reservoir.nodePool}}",
    "</powershell>",
    "a#b",
    "é",
    "a" * 513,
]


def user_data_of(of_class: Any, claims: list[NodeClaim] | None = None) -> str:
    """Return what EC2 is given for a launch of the class."""
    world = World()
    world.add_workload(replicas=10)
    world.plan(2, on_demand("m5.large"))
    catalogue = {instance_type.name: instance_type for instance_type in CATALOGUE}
    facts = LaunchFacts(
        of_class, catalogue, "prod", START, for_user_data={"nodeClaimsTable": "claims"}
    )
    request = build_launch_request(claims or world.claims(), facts)
    (encoded,) = {str(config.template.data["UserData"]) for config in request.configs}
    return base64.b64decode(encoded).decode()


def test_each_placeholder_becomes_its_value_and_all_else_stays() -> None:
    text = "pool={{reservoir.nodePool}} url={{ reservoir.reportsQueueUrl }} ${HOME} {{ v1.region }} {{reservoir}}"
    assert filled(text, VALUES) == (
        "pool=training url=https://sqs.us-east-1.amazonaws.com/1/Reports_x ${HOME} {{ v1.region }} {{reservoir}}"
    )


def test_a_launch_fills_what_its_instances_have_in_common() -> None:
    text = "{{reservoir.deployment}}:{{reservoir.nodeClass}}/{{reservoir.nodePool}} {{reservoir.nodeClaimsTable}}"
    of_class = node_class(user_data=text)
    assert user_data_of(of_class) == "prod:default/gpu claims"


@pytest.mark.parametrize(
    "text",
    [
        "{{reservoir.nodeClaim}}",
        "{{reservoir.workload}}",
        "{{reservoir.nodePool",
        "{{reservoir.",
    ],
)
def test_what_is_no_placeholder_launches_nothing(text: str) -> None:
    assert list(wrong_placeholders(f"x {text} y"))
    with pytest.raises(NodeClassUnlaunchableError, match="which has no value"):
        filled(text, dict.fromkeys(PLACEHOLDERS, "a"))


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_a_value_that_could_be_more_than_a_name_launches_nothing(hostile: str) -> None:
    with pytest.raises(
        NodeClassUnlaunchableError, match="nodePool of user data is not a plain name"
    ):
        filled("{{reservoir.nodePool}}", {"nodePool": hostile})


@given(
    st.lists(
        st.text().filter(lambda text: "{" not in text and "}" not in text),
        min_size=2,
        max_size=4,
    ),
    st.text(),
)
def test_no_value_adds_anything_but_plain_characters(
    written: list[str], value: str
) -> None:
    try:
        result = filled("{{reservoir.nodePool}}".join(written), {"nodePool": value})
    except NodeClassUnlaunchableError:
        assert (
            not value
            or len(value) > 512
            or set(value)
            - set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            - set("abcdefghijklmnopqrstuvwxyz0123456789./:_-")
        )
    else:
        assert result == value.join(written)
        assert value.isascii()
        assert value.strip() == value


@given(st.text(), st.text(), st.text())
def test_nothing_that_demand_says_reaches_user_data(
    workload: str, gang: str, label: str
) -> None:
    of_class = node_class(user_data="#!/bin/sh\nexec /opt/run {{reservoir.nodePool}}\n")
    world = World()
    world.add_workload(replicas=10)
    world.plan(2, on_demand("m5.large"))
    claims = [
        replace(
            claim,
            gang_key=gang,
            placements=(PlacedReplicas(workload, 1),),
            labels={label: label},
        )
        for claim in world.claims()
    ]
    assert user_data_of(of_class, claims) == user_data_of(of_class)


def test_plain_characters_mean_themselves_wherever_they_are_put() -> None:
    text = filled("{{reservoir.nodePool}}", {"nodePool": EVERY_PLAIN_CHARACTER})
    for quote in ("", "'", '"'):
        command = ["sh", "-c", f"printf %s {quote}{text}{quote}"]
        said = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 - plain characters
        assert said.stdout == EVERY_PLAIN_CHARACTER
        assert yaml.safe_load(f"key: {quote}{text}{quote}") == {
            "key": EVERY_PLAIN_CHARACTER
        }
    assert (
        tomllib.loads(f'key = "{text}"')
        == json.loads(f'{{"key": "{text}"}}')
        == {"key": EVERY_PLAIN_CHARACTER}
    )


def test_user_data_that_outgrows_ec2s_limit_launches_nothing() -> None:
    fits = node_class(user_data="x" * 16_000)
    assert len(user_data_of(fits)) == 16_000
    grows = node_class(
        user_data="x" * 16_300
        + "{{reservoir.nodePool}}"
        + "{{reservoir.nodeClaimsTable}}" * 20
    )
    with pytest.raises(NodeClassUnlaunchableError, match="EC2 allows 16384"):
        user_data_of(replace(grows, name="n" * 63))
