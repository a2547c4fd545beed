import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.system import START
from lab.worlds.policies import BY, Bus, applier, files, node_class, pool
from reservoir.core.model.conditions import Condition, ConditionStatus, ConditionType
from reservoir.core.scheduling_terms.labels import ZONE
from reservoir.manifests.answers.render import to_yaml
from reservoir.manifests.events import Change, PolicyChanged
from reservoir.manifests.known_values import KnownValues
from reservoir.manifests.parsing.problems import ManifestError, Severity
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.policy import PolicyKind, PolicyStatus
from reservoir.ports.state import ConflictError
from reservoir.usecases.policy.apply_policy import ApplyPolicy, names_in
from reservoir.usecases.policy.policy_objects import policy_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "policy"


def example_files() -> list[tuple[str, str]]:
    return [(path.name, path.read_text()) for path in sorted(EXAMPLES.glob("*.yaml"))]


def test_the_examples_apply_without_a_doubt_and_applying_them_again_changes_nothing(
    store: MemoryPolicyStore,
) -> None:
    bus = Bus()
    first = applier(store, bus).apply(example_files())
    assert {change.change for change in first.changes} == {Change.CREATED}
    assert first.problems == ()
    again = applier(store, bus).apply(example_files())
    assert {change.change for change in again.changes} == {Change.UNCHANGED}
    assert store.commit_count == 1
    assert (len(bus.events), bus.wake_count) == (1, 1)


def test_what_is_printed_can_be_applied_and_changes_nothing(
    store: MemoryPolicyStore,
) -> None:
    applier(store).apply(example_files())
    printed = to_yaml(
        {
            **row.manifest,
            "status": {"conditions": []},
            "metadata": {**row.manifest["metadata"], "resourceVersion": "1"},
        }
        for row in store.list_all()
    )
    outcome = applier(store).apply([("printed", printed)])
    assert outcome.effective == ()


def test_the_event_tells_what_changed(store: MemoryPolicyStore) -> None:
    bus = Bus()
    applier(store).apply(files(node_class(), pool()))
    applier(store, bus).apply(
        files(node_class(), pool(requirement="{key: team, operator: Exists}"))
    )
    (event,) = bus.events
    assert isinstance(event, PolicyChanged)
    assert event.detail() == {
        "version": 1,
        "by": BY,
        "changes": [
            {
                "kind": "NodePool",
                "name": "p",
                "change": "updated",
                "generation": 2,
                "fields": [
                    {
                        "path": "spec.template.spec.requirements",
                        "before": "[]",
                        "after": '[{"key": "team", "operator": "Exists"}]',
                    }
                ],
                "fieldsLeftOut": 0,
            }
        ],
    }


def changed_fields(bus: Bus) -> dict[str, tuple[str | None, str | None]]:
    event = bus.events[-1]
    assert isinstance(event, PolicyChanged)
    (change,) = event.changes
    return {it.path: (it.before, it.after) for it in change.fields}


def test_the_event_shows_no_user_data(store: MemoryPolicyStore) -> None:
    bus = Bus()
    secret = node_class().replace("spec:", "spec:\n  userData: TOKEN=s3cret")
    applier(store, bus).apply(files(secret))
    assert changed_fields(bus)["spec.userData"] == (None, "(not shown)")
    applier(store, bus).apply(files(secret.replace("s3cret", "n3w")))
    assert changed_fields(bus) == {"spec.userData": ("(not shown)", "(not shown)")}
    applier(store, bus).delete([(PolicyKind.NODE_CLASS, "c")])
    assert changed_fields(bus)["spec.userData"] == ("(not shown)", None)
    assert "cret" not in str([event.detail() for event in bus.events])


def test_an_event_of_many_changes_fits_the_bus(store: MemoryPolicyStore) -> None:
    bus = Bus()
    tags = ", ".join(f"key-{number}: {'x' * 250}" for number in range(40))
    classes = [
        node_class(f"c{number}").replace("spec:", f"spec:\n  tags: {{{tags}}}")
        for number in range(100)
    ]
    applier(store, bus).apply(files(*classes))
    (event,) = bus.events
    assert isinstance(event, PolicyChanged)
    assert len(json.dumps(event.detail())) < 256_000
    assert sum(len(change.fields) for change in event.changes) == 200
    assert all(change.fields_left_out for change in event.changes[10:])


def test_one_error_writes_nothing_at_all(store: MemoryPolicyStore) -> None:
    with pytest.raises(ManifestError) as caught:
        applier(store).apply(
            files(node_class(), pool().replace("weight: 7", "weight: 700"), "kind: Nothing")
        )
    assert [problem.source for problem in caught.value.problems] == ["1.yaml", "2.yaml"]
    assert store.list_all() == ()


def rules_told(applied: ApplyPolicy, *texts: str) -> list[tuple[str, str]]:
    """Return the object and the rule of each problem with which these manifests are refused."""
    with pytest.raises(ManifestError) as caught:
        applied.apply(files(*texts))
    return sorted((problem.subject, problem.rule) for problem in caught.value.problems)


def test_one_round_tells_errors_and_what_is_doubtful_in_all_that_was_given(
    store: MemoryPolicyStore,
) -> None:
    """Values that the catalogue lacks are told of the pool that has errors and of the one that has none."""
    known = KnownValues({ZONE: frozenset({"us-east-1a"})}, "in this account and region")
    mistyped = f"{{key: {ZONE}, operator: In, values: [us-east-1z]}}"
    broken = pool("broken", requirement=mistyped).replace("weight: 7", "weight: many")
    told = rules_told(
        replace(applier(store), known=lambda: known),
        node_class(),
        broken,
        pool("valid", "no-such", mistyped),
    )
    assert told == [
        ("NodePool/broken", "int-type"),
        ("NodePool/broken", "unknown-value"),
        ("NodePool/valid", "no-class"),
        ("NodePool/valid", "unknown-value"),
    ]
    assert store.list_all() == ()


def test_what_an_object_with_errors_may_supply_is_not_said_to_be_missing(
    store: MemoryPolicyStore,
) -> None:
    """Neither as it was given, nor as it is stored: what is stored is about to change."""
    broken = node_class(image="app-arm64-*").replace("spec:", "spec:\n  mistake: 1")
    told = rules_told(applier(store), broken, pool())
    assert told == [("EC2NodeClass/c", "unknown-field")]
    applier(store).apply(files(node_class(image="app-arm64-*")))
    on_x86 = pool(requirement="{key: kubernetes.io/arch, operator: In, values: [amd64]}")
    assert rules_told(applier(store), broken, on_x86) == told
    assert [doubt.rule for doubt in applier(store).apply(files(on_x86)).problems] == [
        "architecture"
    ]


def test_what_the_files_show_is_told_also_when_aws_does_not_answer(
    store: MemoryPolicyStore,
) -> None:
    def unreadable() -> KnownValues | None:
        raise AccessDeniedError("AccessDenied", "Query")

    without_catalogue = replace(applier(store), known=unreadable)
    assert rules_told(without_catalogue, pool().replace("weight: 7", "weight: many")) == [
        ("NodePool/p", "int-type")
    ]
    with pytest.raises(AccessDeniedError):
        without_catalogue.apply(files(node_class(), pool()))


def test_a_dry_run_tells_the_same_and_writes_nothing(store: MemoryPolicyStore) -> None:
    bus = Bus()
    dry = applier(store, bus).apply(files(node_class(), pool()), dry_run=True)
    assert store.list_all() == ()
    assert bus.events == []
    assert dry == applier(store, bus).apply(files(node_class(), pool()))


def test_an_object_that_moves_on_during_an_apply_is_a_conflict_and_nothing_is_written(
    store: MemoryPolicyStore,
) -> None:
    applier(store).apply(files(node_class(), pool()))

    def overtake() -> None:
        store.before_commit = lambda: None
        applier(store).apply(files(pool().replace("weight: 7", "weight: 8")))

    store.before_commit = overtake
    with pytest.raises(ConflictError):
        applier(store).apply(
            files(node_class(image="new-*"), pool().replace("weight: 7", "weight: 9"))
        )
    rows = {row.kind: row for row in store.list_all()}
    assert rows[PolicyKind.NODE_POOL].manifest["spec"]["weight"] == 8
    assert rows[PolicyKind.NODE_CLASS].manifest["spec"]["amiSelectorTerms"] == [
        {"name": "app-*"}
    ]


@pytest.mark.parametrize("version", ["7", "x"])
def test_a_resource_version_that_is_not_the_stored_one_is_a_conflict(
    store: MemoryPolicyStore, version: str
) -> None:
    applier(store).apply(files(node_class(), pool()))
    stale = pool(requirement="{key: team, operator: Exists}").replace(
        "{name: p}", f"{{name: p, resourceVersion: '{version}'}}"
    )
    with pytest.raises(ConflictError):
        applier(store).apply(files(stale))


def test_a_change_that_was_made_already_is_no_conflict(store: MemoryPolicyStore) -> None:
    changed = files(
        pool(requirement="{key: team, operator: Exists}").replace(
            "{name: p}", "{name: p, resourceVersion: '1'}"
        )
    )
    applier(store).apply(files(node_class(), pool()))
    applier(store).apply(changed)
    again = applier(store).apply(changed)
    assert again.effective == ()
    assert store.commit_count == 2


def test_an_object_that_was_deleted_meanwhile_is_not_created_again_by_an_edit(
    store: MemoryPolicyStore,
) -> None:
    with pytest.raises(ConflictError, match="does not exist"):
        applier(store).apply(
            files(pool().replace("{name: p}", "{name: p, resourceVersion: '1'}"))
        )


def test_delete_names_what_it_deleted_and_warns_of_what_it_breaks(
    store: MemoryPolicyStore,
) -> None:
    applier(store).apply(files(node_class(), pool()))
    outcome = applier(store).delete(
        [(PolicyKind.NODE_CLASS, "c"), (PolicyKind.NODE_CLASS, "unknown")]
    )
    assert [(change.name, change.change) for change in outcome.changes] == [
        ("c", Change.DELETED)
    ]
    assert [problem.rule for problem in outcome.problems] == ["no-class"]
    assert [row.name for row in store.list_all()] == ["p"]


def test_only_what_is_named_as_removed_is_deleted(store: MemoryPolicyStore) -> None:
    applier(store).apply(files(node_class(), pool("old"), pool("left-out"), pool("kept")))
    removed = [(PolicyKind.NODE_POOL, "old"), (PolicyKind.NODE_POOL, "gone-already")]
    outcome = applier(store).replace(
        files(node_class(), pool("kept"), pool("new")), removed
    )
    assert {change.name: change.change for change in outcome.effective} == {
        "new": Change.CREATED,
        "old": Change.DELETED,
    }
    assert [row.name for row in store.list_all()] == ["c", "kept", "left-out", "new"]


def test_what_is_removed_and_given_is_a_contradiction(store: MemoryPolicyStore) -> None:
    with pytest.raises(
        ManifestError,
        match=r"1\.yaml:4: error: NodePool/p metadata.name: is to be removed, and is given",
    ):
        applier(store).replace(files(node_class(), pool()), [(PolicyKind.NODE_POOL, "p")])
    assert store.list_all() == ()


def test_a_workload_is_not_policy(store: MemoryPolicyStore) -> None:
    text = "{apiVersion: reservoir/v1, kind: Workload, metadata: {name: w}, spec: {}}"
    with pytest.raises(ManifestError, match="to the demand queue"):
        applier(store).apply(files(text))


def test_the_same_object_twice_is_an_error_that_names_both_places(
    store: MemoryPolicyStore,
) -> None:
    with pytest.raises(
        ManifestError, match=r"1\.yaml:4: error: NodePool/p .* first at 0\.yaml:4"
    ):
        applier(store).apply(files(pool(), pool()))


def test_more_objects_than_one_transaction_holds_are_refused(
    store: MemoryPolicyStore,
) -> None:
    with pytest.raises(ManifestError, match="at most 100"):
        applier(store).apply(
            files(node_class(), "---".join(pool(f"p{index}") for index in range(100)))
        )
    assert store.list_all() == ()


def test_a_warning_is_given_and_does_not_forbid(store: MemoryPolicyStore) -> None:
    outcome = applier(store).apply(files(pool(node_class_name="gpus"), node_class("gpu")))
    (problem,) = outcome.problems
    assert (problem.severity, problem.suggestion, problem.line) == (
        Severity.WARNING,
        "gpu",
        7,
    )
    assert "can never launch because there is no EC2NodeClass gpus" in problem.message
    assert len(store.list_all()) == 2


def test_a_put_keeps_the_status(store: MemoryPolicyStore) -> None:
    applier(store).apply(files(node_class()))
    ready = Condition(ConditionType.READY, ConditionStatus.TRUE, "Ready", "", START)
    store.save_status(PolicyKind.NODE_CLASS, "c", PolicyStatus((ready,)))
    applier(store).apply(files(node_class(image="other-*")))
    (row,) = store.list_all()
    assert row.status.conditions == (ready,)
    assert (row.generation, row.revision) == (2, 2)


def test_stored_policy_becomes_values_of_the_core(store: MemoryPolicyStore) -> None:
    applier(store).apply(example_files())
    policy = policy_of(store.list_all())
    assert [pool.name for pool in policy.node_pools] == ["default", "gpu-training"]
    assert [node_class.name for node_class in policy.node_classes] == [
        "default",
        "gpu-training",
    ]


def test_names_of_files_that_cannot_be_read_are_not_found() -> None:
    assert names_in(files(pool(), "]", "kind: x")) == ((PolicyKind.NODE_POOL, "p"),)


def test_a_pool_neither_becomes_static_nor_stops_being_it(store: MemoryPolicyStore) -> None:
    def said(text: str) -> list[tuple[str, str]]:
        try:
            problems = applier(store).apply(files(node_class(), text)).problems
        except ManifestError as error:
            problems = tuple(error.problems)
        return [(problem.path, problem.rule) for problem in problems]

    moving, fixed = pool(), pool().replace("weight: 7", "replicas: 3")
    assert said(fixed) == []
    assert said(moving) == [("spec.replicas", "static")]
    assert said(fixed.replace("3", "5")) == []
    applier(store).delete([(PolicyKind.NODE_POOL, "p")])
    assert said(moving) == []
    assert said(fixed) == [("spec.replicas", "static")]
