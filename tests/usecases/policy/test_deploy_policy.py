import json
from collections.abc import Sequence
from typing import Any

import pytest

from lab.fakes.manifests import team_manifest
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.worlds.policies import applier, files, node_class, pool
from reservoir.manifests.events import Change
from reservoir.names import (
    MANIFEST_NAME,
    MANIFEST_TEXT,
    MANIFESTS_PROPERTY,
    REMOVED_PROPERTY,
)
from reservoir.ports.errors import AccessDeniedError, RefusedError
from reservoir.usecases.policy.deploy_policy import APPLIED, NOT_APPLIED, DeployPolicy


def properties(*texts: str, removed: Sequence[str] = ()) -> dict[str, Any]:
    listed = [{MANIFEST_NAME: name, MANIFEST_TEXT: text} for name, text in files(*texts)]
    return {MANIFESTS_PROPERTY: listed, REMOVED_PROPERTY: list(removed)}


def create(*texts: str) -> dict[str, Any]:
    return {"RequestType": "Create", "ResourceProperties": properties(*texts)}


def update(
    before: list[str], after: list[str], removed: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "RequestType": "Update",
        "PhysicalResourceId": APPLIED,
        "ResourceProperties": properties(*after, removed=removed),
        "OldResourceProperties": properties(*before),
    }


@pytest.fixture
def use_case(store: MemoryPolicyStore) -> DeployPolicy:
    return DeployPolicy(applier(store), pause=lambda _: None)


def names(store: MemoryPolicyStore) -> list[str]:
    return [row.name for row in store.list_all()]


def test_what_only_leaves_the_folder_stays(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    created = use_case.handle(create(node_class(), pool("a"), pool("b")))
    assert (created.succeeded, created.physical_id) == (True, APPLIED)
    updated = use_case.handle(
        update([node_class(), pool("a"), pool("b")], [node_class(), pool("b")])
    )
    assert (updated.succeeded, updated.outcome.effective) == (True, ())
    assert names(store) == ["c", "a", "b"]


def test_what_the_deployment_says_is_removed_is_deleted(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    use_case.handle(create(node_class(), pool("a"), pool("b")))
    updated = use_case.handle(
        update(
            [node_class(), pool("a"), pool("b")], [node_class(), pool("b")], ["NodePool/a"]
        )
    )
    assert [(change.name, change.change) for change in updated.outcome.effective] == [
        ("a", Change.DELETED)
    ]
    assert names(store) == ["c", "b"]


def test_a_team_is_removed_by_name(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    team = json.dumps(team_manifest("audio", namespaces=["audio"], principals=[]))
    use_case.handle(create(node_class(), team))
    removed = use_case.handle(update([node_class(), team], [node_class()], ["Team/audio"]))
    assert [(change.name, change.change) for change in removed.outcome.effective] == [
        ("audio", Change.DELETED)
    ]
    assert names(store) == ["c"]


def test_a_repeated_request_changes_nothing(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    for _ in range(2):
        assert use_case.handle(create(node_class(), pool())).succeeded
    assert store.commit_count == 1


def test_deploying_without_the_folder_and_deleting_the_stack_delete_no_policy(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    use_case.handle(create(node_class(), pool()))
    request = {
        **create(node_class(), pool()),
        "RequestType": "Delete",
        "PhysicalResourceId": APPLIED,
    }
    assert use_case.handle(request).succeeded
    assert names(store) == ["c", "p"]


def test_a_folder_with_errors_fails_the_deployment_with_all_of_them(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    failed = use_case.handle(
        create(node_class(), pool().replace("weight: 7", "weight: x"), "kind: Nothing")
    )
    assert (failed.succeeded, failed.physical_id) == (False, NOT_APPLIED)
    assert "1.yaml:6: error: NodePool/p spec.weight" in failed.reason
    assert "2.yaml:1: error: kind" in failed.reason
    assert names(store) == []


def test_rolling_a_failed_create_back_deletes_nothing_that_was_there_before(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    applier(store).apply(files(node_class(), pool()))
    request = {**create(node_class(), pool(), "kind: Nothing"), "RequestType": "Delete"}
    assert use_case.handle({**request, "PhysicalResourceId": NOT_APPLIED}).succeeded
    assert names(store) == ["c", "p"]


def test_permissions_that_have_not_spread_yet_are_waited_for(
    store: MemoryPolicyStore,
) -> None:
    pauses_s: list[float] = []
    store.before_commit = lambda: deny_until(3)

    def deny_until(count: int) -> None:
        if len(pauses_s) < count:
            raise AccessDeniedError("AccessDeniedException", "TransactWriteItems")

    use_case = DeployPolicy(applier(store), pause=pauses_s.append)
    deployment = use_case.handle(create(node_class(), pool()))
    assert deployment.succeeded
    assert pauses_s == [5.0, 5.0, 5.0]
    assert [reason.split(":")[0] for reason in deployment.repeated] == [
        "AccessDeniedError"
    ] * 3


def test_permissions_that_never_come_fail_the_deployment(store: MemoryPolicyStore) -> None:
    pauses: list[float] = []

    def deny() -> None:
        raise AccessDeniedError("AccessDeniedException", "TransactWriteItems")

    store.before_commit = deny
    with pytest.raises(AccessDeniedError):
        DeployPolicy(applier(store), pause=pauses.append).handle(create(pool()))
    assert len(pauses) == 5, "before each attempt but the first"


def test_any_other_refusal_fails_the_deployment_at_once(store: MemoryPolicyStore) -> None:
    def refuse() -> None:
        raise RefusedError("ItemCollectionSizeLimitExceededException", "TransactWriteItems")

    store.before_commit = refuse
    with pytest.raises(RefusedError):
        DeployPolicy(
            applier(store), pause=lambda _: pytest.fail("nothing to wait for")
        ).handle(create(pool()))


def test_what_is_removed_has_a_kind(
    store: MemoryPolicyStore, use_case: DeployPolicy
) -> None:
    use_case.handle(create(node_class(), pool()))
    with pytest.raises(ValueError, match="Pool"):
        use_case.handle(update([node_class(), pool()], [node_class()], ["Pool/p"]))
    assert names(store) == ["c", "p"]


def test_a_race_is_run_again(store: MemoryPolicyStore, use_case: DeployPolicy) -> None:
    use_case.handle(create(node_class(), pool()))

    def overtake() -> None:
        store.before_commit = lambda: None
        applier(store).apply(files(pool().replace("weight: 7", "weight: 8")))

    store.before_commit = overtake
    heavier = pool().replace("weight: 7", "weight: 9")
    assert use_case.handle(
        update([node_class(), pool()], [node_class(), heavier])
    ).succeeded
    assert [row.manifest["spec"].get("weight") for row in store.list_all()] == [None, 9]
