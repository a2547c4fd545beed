"""Decisions and policy in DynamoDB and S3."""

import itertools
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from lab.local.stores import LISTING
from reservoir.adapters.dynamodb.decisions import StoredDecisions
from reservoir.adapters.dynamodb.policy import DynamoDbPolicyStore
from reservoir.core.model.conditions import Condition, ConditionStatus, ConditionType
from reservoir.core.model.decision_summary import DecisionSummary
from reservoir.core.model.node_claim import Operation
from reservoir.core.model.node_class import NodeClassStatus
from reservoir.ports.history import Decision
from reservoir.ports.policy import (
    DeletePolicy,
    Pause,
    PolicyKind,
    PolicyStatus,
    PolicyStore,
    PutPolicy,
)
from reservoir.ports.state import ConflictError, UnreadableRowsError

_numbers = itertools.count()


Stored = tuple[StoredDecisions, Any, ManualClock]


@pytest.fixture
def stored(aws_endpoint: str, dynamodb: Any) -> Stored:
    """Return decisions in a table and a bucket of their own, the client that sees the bucket, and their clock."""
    s3, clock, name = (
        ministack.client("s3", aws_endpoint),
        ManualClock(),
        f"decisions-{next(_numbers)}",
    )
    s3.create_bucket(Bucket=name)
    ministack.create_table(dynamodb, name, indexes=LISTING)
    return StoredDecisions(dynamodb, name, s3, name, clock), s3, clock


def _objects(stored: Stored) -> dict[str, Any]:
    decisions, s3, _ = stored
    listed = s3.list_objects_v2(Bucket=decisions._bucket).get("Contents", [])
    return {item["Key"]: item["LastModified"] for item in listed}


@pytest.mark.embedded
def test_a_decision_is_kept_with_its_snapshot_for_a_while(stored: Stored) -> None:
    decisions, _, clock = stored
    decision = Decision(
        "plan-1", START, '{"launches":[]}', {"launches": 3}, '{"with_certificate":true}'
    )

    decisions.save(decision, '{"nodes":["ä"]}')

    assert decisions.load("plan-1") == (decision, '{"nodes":["ä"]}')
    assert decisions.load("plan-2") is None
    clock.advance(days=15)
    assert decisions.load("plan-1") is None


@pytest.mark.embedded
def test_what_decisions_did_is_told_without_reading_their_plans(stored: Stored) -> None:
    decisions, s3, _ = stored
    for number in range(2):
        decisions.save(Decision(f"plan-{number}", START, "{}", {"launches": number}), "{}")
    for key in _objects(stored):
        s3.delete_object(Bucket=decisions._bucket, Key=key)
    assert decisions.summaries(["plan-0", "plan-1", "plan-9"]) == {
        "plan-0": DecisionSummary("plan-0", START, {"launches": 0}),
        "plan-1": DecisionSummary("plan-1", START, {"launches": 1}),
    }


@pytest.mark.embedded
@pytest.mark.parametrize(
    "damage",
    [{"form": {"N": "99"}}, {"data": {"S": "no JSON"}}, {"made_at": {"S": "once"}}],
)
def test_a_decision_that_cannot_be_read_is_not_one_that_expired(
    stored: Stored, damage: dict[str, Any]
) -> None:
    decisions, _, _ = stored
    for number in range(2):
        decisions.save(Decision(f"plan-{number}", START, "{}"), "{}")
    table: Any = decisions._table
    row = table.client.get_item(TableName=table.name, Key={"id": {"S": "plan-1"}})["Item"]
    table.client.put_item(TableName=table.name, Item=row | damage)

    with pytest.raises(UnreadableRowsError, match="plan-1"):
        decisions.load("plan-1")
    with pytest.raises(UnreadableRowsError, match=r"row plan-1$"):
        decisions.summaries(["plan-0", "plan-1"])
    assert decisions.summaries(["plan-0"]).keys() == {"plan-0"}


@pytest.mark.embedded
def test_decisions_on_the_same_snapshot_share_it(stored: Stored) -> None:
    decisions, _, _ = stored
    for number in range(3):
        decisions.save(
            Decision(f"plan-{number}", START, f'{{"launches":[{number}]}}'), '{"nodes":[]}'
        )

    assert sum(key.startswith("snapshots/") for key in _objects(stored)) == 1
    found = decisions.load("plan-2")
    assert found is not None
    assert found[1] == '{"nodes":[]}'


@pytest.mark.embedded
def test_what_says_the_same_of_the_same_keeps_the_moment_at_which_it_was_first_said(
    stored: Stored,
) -> None:
    decisions, _, clock = stored
    first = Decision("latest", START, '{"refusals":[]}')
    decisions.save_if_changed(first, '{"nodes":[]}')
    decisions.save_if_changed(
        replace(first, made_at=clock.advance(minutes=1)), '{"nodes":[]}'
    )
    assert decisions.load("latest") == (first, '{"nodes":[]}')

    another = replace(first, made_at=clock.advance(minutes=1))
    decisions.save_if_changed(another, '{"nodes":[1]}')
    assert decisions.load("latest") == (another, '{"nodes":[1]}')
    longer = replace(
        another, made_at=clock.advance(minutes=1), plan_json='{"refusals":[1]}'
    )
    decisions.save_if_changed(longer, '{"nodes":[1]}')
    assert decisions.load("latest") == (longer, '{"nodes":[1]}')


@pytest.mark.embedded
def test_a_decision_that_is_still_so_after_its_row_expired_is_kept_again(
    stored: Stored,
) -> None:
    decisions, _, clock = stored
    decisions.save_if_changed(Decision("latest", START, "{}"), "{}")
    later = Decision("latest", clock.advance(days=15), "{}")
    decisions.save_if_changed(later, "{}")
    assert decisions.load("latest") == (later, "{}")


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def policy(request: pytest.FixtureRequest) -> PolicyStore:
    if request.param == "memory":
        return MemoryPolicyStore()
    dynamodb = request.getfixturevalue("dynamodb")
    name = f"policy-{next(_numbers)}"
    ministack.create_table(dynamodb, name, indexes=LISTING)
    return DynamoDbPolicyStore(dynamodb, name, ManualClock())


POOL, CLASS = PolicyKind.NODE_POOL, PolicyKind.NODE_CLASS


def test_policy_is_written_whole_or_not_at_all(policy: PolicyStore) -> None:
    policy.commit(
        [
            PutPolicy(POOL, "gpu", {"spec": 1}, 1, None),
            PutPolicy(CLASS, "default", {"spec": {"a": []}}, 1, None),
        ]
    )

    with pytest.raises(ConflictError):
        policy.commit(
            [PutPolicy(POOL, "cpu", {}, 1, None), PutPolicy(POOL, "gpu", {}, 2, None)]
        )
    with pytest.raises(ConflictError):
        policy.commit([PutPolicy(POOL, "gpu", {"spec": 2}, 2, 7)])

    assert [(item.kind, item.name, item.revision) for item in policy.list_all()] == [
        (CLASS, "default", 1),
        (POOL, "gpu", 1),
    ]
    stored = policy.get(CLASS, "default")
    assert stored is not None
    assert stored.manifest == {"spec": {"a": []}}


def test_a_change_keeps_the_status_and_a_status_the_revision(policy: PolicyStore) -> None:
    policy.commit([PutPolicy(CLASS, "default", {"spec": 1}, 1, None)])
    found = PolicyStatus(
        node_class=NodeClassStatus(reservation_ids=("cr-1",), launch_blocked_at=START)
    )

    assert policy.save_status(CLASS, "default", found)
    assert not policy.save_status(CLASS, "default", replace(found))
    assert not policy.save_status(CLASS, "gone", found)
    policy.commit([PutPolicy(CLASS, "default", {"spec": 2}, 2, 1)])

    stored = policy.get(CLASS, "default")
    assert stored is not None
    assert (stored.status, stored.generation, stored.revision) == (found, 2, 2)
    assert stored.status.node_class.launch_blocked_at == START + timedelta()


def test_a_pause_stands_beside_manifest_and_status_and_goes_with_the_pool(
    policy: PolicyStore,
) -> None:
    done = Operation("pause", "arn:aws:iam::123456789012:user/ada", "OPS-7", START)
    paused, resumed = (
        Pause(is_paused=True, operations=(done,)),
        Pause(operations=(done, done)),
    )
    policy.commit([PutPolicy(PolicyKind.NODE_POOL, "gpu", {"spec": 1}, 1, None)])
    policy.save_pause("gpu", paused, expected=Pause())
    for stale in (Pause(), resumed):
        with pytest.raises(ConflictError):
            policy.save_pause("gpu", resumed, expected=stale)
    policy.commit([PutPolicy(PolicyKind.NODE_POOL, "gpu", {"spec": 2}, 2, 1)])
    policy.save_status(PolicyKind.NODE_POOL, "gpu", PolicyStatus())
    stored = policy.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    assert (stored.pause, stored.revision) == (paused, 2)
    policy.save_pause("gpu", resumed, expected=paused)

    policy.commit([DeletePolicy(PolicyKind.NODE_POOL, "gpu", 2)])
    with pytest.raises(ConflictError):
        policy.save_pause("gpu", paused, expected=resumed)
    policy.commit([PutPolicy(PolicyKind.NODE_POOL, "gpu", {"spec": 3}, 1, None)])
    (anew,) = policy.list_all()
    assert anew.pause == Pause()


def test_policy_is_deleted_at_the_revision_that_was_seen(policy: PolicyStore) -> None:
    policy.commit([PutPolicy(POOL, "gpu", {}, 1, None)])

    with pytest.raises(ConflictError):
        policy.commit([DeletePolicy(POOL, "gpu", 2)])
    policy.commit([DeletePolicy(POOL, "gpu", 1)])

    assert policy.get(POOL, "gpu") is None
    assert policy.list_all() == ()


@pytest.mark.embedded
@pytest.mark.parametrize(
    "damage", [{"form": {"N": "99"}}, {"data": {"S": "no JSON"}}, {"status": {"S": "{}x"}}]
)
def test_policy_that_cannot_be_read_is_listed_as_such_and_refused_by_name(
    dynamodb: Any, damage: dict[str, Any]
) -> None:
    table = f"policy-{next(_numbers)}"
    ministack.create_table(dynamodb, table, indexes=LISTING)
    policy = DynamoDbPolicyStore(dynamodb, table, ManualClock())
    policy.commit(
        [PutPolicy(POOL, name, {"spec": 1}, 1, None) for name in ("gpu", "other")]
    )
    row = dynamodb.get_item(TableName=table, Key={"id": {"S": "NodePool/gpu"}})["Item"]
    dynamodb.put_item(TableName=table, Item=row | damage)
    dynamodb.put_item(TableName=table, Item=row | {"id": {"S": "KindOfTheNextRelease/x"}})

    assert [(item.name, item.is_readable) for item in policy.list_all()] == [
        ("gpu", False),
        ("other", True),
    ]
    with pytest.raises(UnreadableRowsError, match="NodePool/gpu"):
        policy.get(POOL, "gpu")
    with pytest.raises(ConflictError):
        policy.commit([PutPolicy(POOL, "gpu", {"spec": 2}, 2, 0)])


@pytest.mark.embedded
def test_a_status_is_readable_for_the_release_before_and_whole_for_this_one(
    dynamodb: Any,
) -> None:
    """The release before refuses a status with a type of condition that it does not know, and the class with it."""
    table = f"policy-{next(_numbers)}"
    ministack.create_table(dynamodb, table, indexes=LISTING)
    policy = DynamoDbPolicyStore(dynamodb, table, ManualClock())
    policy.commit([PutPolicy(POOL, "gpu", {"spec": 1}, 1, None)])
    status = PolicyStatus(
        conditions=(
            condition(ConditionType.VALIDATION_SUCCEEDED),
            condition(ConditionType.READY),
        )
    )
    assert policy.save_status(POOL, "gpu", status)
    assert not policy.save_status(POOL, "gpu", status), "nothing changed"

    found = policy.get(POOL, "gpu")
    assert found is not None
    assert found.status == status
    row = dynamodb.get_item(TableName=table, Key={"id": {"S": "NodePool/gpu"}})["Item"]
    assert [each["type"] for each in json.loads(row["status"]["S"])["conditions"]] == [
        "Ready"
    ]

    del row["laterConditions"]  # as the release before leaves a new object
    dynamodb.put_item(TableName=table, Item=row)
    without = policy.get(POOL, "gpu")
    assert without is not None
    assert without.status == PolicyStatus(conditions=(condition(ConditionType.READY),))


@pytest.mark.embedded
def test_a_condition_that_only_a_newer_release_knows_is_left_out(dynamodb: Any) -> None:
    table = f"policy-{next(_numbers)}"
    ministack.create_table(dynamodb, table, indexes=LISTING)
    policy = DynamoDbPolicyStore(dynamodb, table, ManualClock())
    ready = PolicyStatus(conditions=(condition(ConditionType.READY),))
    policy.commit([PutPolicy(POOL, "gpu", {"spec": 1}, 1, None, ready)])
    row = dynamodb.get_item(TableName=table, Key={"id": {"S": "NodePool/gpu"}})["Item"]
    (stored,) = json.loads(row["status"]["S"])["conditions"]
    newer = {"conditions": [stored, stored | {"type": "ReadyForTheMoon"}]}
    dynamodb.put_item(TableName=table, Item=row | {"status": {"S": json.dumps(newer)}})

    found = policy.get(POOL, "gpu")
    assert found is not None
    assert found.status == ready


def condition(kind: ConditionType) -> Condition:
    return Condition(kind, ConditionStatus.TRUE, "Found", "", START)


def test_a_revision_never_comes_again(policy: PolicyStore) -> None:
    policy.commit([PutPolicy(POOL, "gpu", {"spec": 1}, 1, None)])
    policy.commit([DeletePolicy(POOL, "gpu", 1)])
    assert not policy.save_status(
        POOL, "gpu", PolicyStatus(node_class=NodeClassStatus(reservation_ids=("cr-1",)))
    )

    policy.commit([PutPolicy(POOL, "gpu", {"spec": 2}, 1, None)])
    again = policy.get(POOL, "gpu")
    assert again is not None
    assert (again.manifest, again.generation, again.status) == (
        {"spec": 2},
        1,
        PolicyStatus(),
    )
    assert again.revision > 2, "neither that of the object nor that of its deletion"
    assert policy.list_all() == (again,)
    for edit_of_the_former in (
        PutPolicy(POOL, "gpu", {}, 2, 1),
        DeletePolicy(POOL, "gpu", 1),
    ):
        with pytest.raises(ConflictError):
            policy.commit([edit_of_the_former])
    with pytest.raises(ConflictError):
        policy.commit([PutPolicy(POOL, "gpu", {}, 1, None)])
