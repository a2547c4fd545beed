"""What lets others in than most deployments mean."""

import json
from typing import Any

import pytest

from reservoir.core.model.team import Team
from reservoir.usecases.policy.open_doors import open_doors

OWN = "111122223333"
OWN_ROLE = f"arn:aws:iam::{OWN}:role/front-end"
OTHER_ROLE = "arn:aws:iam::999988887777:role/front-end"


def doors(
    *teams: Team, in_use: tuple[str, ...] = (), policy: list[dict[str, Any]] | None = None
) -> list[str]:
    document = None if policy is None else json.dumps({"Statement": policy})
    return [door.message for door in open_doors(teams, in_use, OWN, document)]


def allow(principal: Any, **changes: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Principal": principal,
        "Action": "sqs:SendMessage",
        **changes,
    }


def test_one_namespace_needs_no_team() -> None:
    assert doors(in_use=("a",)) == []
    assert doors(Team("t", ("a", "b")), in_use=("a", "b", "c")) == []


def test_several_namespaces_of_no_team() -> None:
    (message,) = doors(in_use=("b", "a"))
    assert message == (
        "there is no Team: any sender may withdraw the work of all 2 namespaces (a, b)"
    )
    (message,) = doors(Team("t", ("a",)), in_use=tuple("abcdefghi"))
    assert message.startswith("they belong to no Team")
    assert message.endswith("8 namespaces (b, c, d, e, f and 3 more)")


def test_principals_of_other_accounts() -> None:
    team = Team("t", ("a",), principals=(OWN_ROLE, OTHER_ROLE, "AROAEXAMPLE00000000001"))
    foreign, unnamed = doors(team)
    assert foreign == f"Team/t names principals of other accounts: {OTHER_ROLE}"
    assert unnamed.endswith("may be of any account: AROAEXAMPLE00000000001")
    assert doors(Team("t", ("a",), principals=(OWN_ROLE,))) == []


@pytest.mark.parametrize("principal", ["*", {"AWS": "*"}, {"AWS": [OWN_ROLE, OTHER_ROLE]}])
def test_a_queue_that_takes_messages_of_other_accounts(principal: Any) -> None:
    for action in ("sqs:SendMessage", "SQS:*", ["sqs:GetQueueUrl", "sqs:SendMessage"]):
        (message,) = doors(policy=[allow(principal, Action=action)])
        assert message.startswith("the demand queue takes messages of other accounts: ")
        assert OWN_ROLE not in message


@pytest.mark.parametrize(
    "statement",
    [
        allow({"AWS": [OWN, OWN_ROLE]}),
        allow({"Service": "events.amazonaws.com"}),
        allow("*", Effect="Deny"),
        allow("*", Action="sqs:GetQueueUrl"),
        allow("*", Condition={"ArnEquals": {"aws:SourceArn": "arn"}}),
    ],
)
def test_a_queue_that_does_not(statement: dict[str, Any]) -> None:
    assert doors(policy=[statement]) == []
