"""Settings, the batch loop and what becomes of messages that cannot be understood."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.safety import safety_environment
from infra.scheduling import planner_environment
from lab.fakes.manifests import workload_manifest
from lab.fakes.messaging import MemoryBus, MemoryDeadLetters
from reservoir import names
from reservoir.core.model.policy import (
    MinValuesPolicy,
    NoDurationPolicy,
    PreferencePolicy,
    SchedulingPolicy,
)
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.messages import parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import Queue, Table
from reservoir.ports.errors import ThrottledError
from reservoir.ports.state import ConflictError
from reservoir.runtime.batch import QueueMessage, each_message
from reservoir.runtime.environment import SettingsError
from reservoir.runtime.observability import count, observed
from reservoir.runtime.settings import REGION, VM_MEMORY_OVERHEAD_PERCENT, Settings
from reservoir.usecases.demand.reject_demand import RejectDemand

ENVIRONMENT = {
    name: f"the-{name.lower()}"
    for name in (
        *Table,
        *Queue,
        names.EVENT_BUS,
        names.DEMAND_DEAD_LETTER_QUEUE,
        names.SNAPSHOTS_BUCKET,
        names.DRAIN_SCHEDULE_GROUP,
        names.DRAIN_SCHEDULE_ROLE_ARN,
        names.DRAIN_SCHEDULE_TARGET_ARN,
        names.DEPLOYMENT,
        names.INSTANCE_ARN_PREFIX,
        REGION,
    )
}


def test_settings_are_read_from_the_environment() -> None:
    settings = Settings.from_environment(ENVIRONMENT)

    assert settings.tables[Table.WORKLOADS] == "the-workloads_table"
    assert settings.queue_urls[Queue.PLANNING] == "the-planning_queue_url"
    assert (
        settings.vm_memory_overhead.limit_denominator(1000) == settings.vm_memory_overhead
    )


def test_everything_that_is_missing_is_named_at_once() -> None:
    incomplete = {
        name: value
        for name, value in ENVIRONMENT.items()
        if name not in (Table.POLICY, names.EVENT_BUS)
    }

    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({**incomplete, Queue.DEMAND: ""})

    assert all(
        name in str(caught.value) for name in (Table.POLICY, names.EVENT_BUS, Queue.DEMAND)
    )


def test_the_longest_notice_is_as_the_stack_says() -> None:
    assert Settings.from_environment(ENVIRONMENT).longest_notice == timedelta(hours=2)
    told = safety_environment(DeploymentSettings.model_validate({"longestNoticeS": 600}))
    assert Settings.from_environment(ENVIRONMENT | told).longest_notice == timedelta(
        minutes=10
    )


def test_a_stack_without_a_queue_for_what_timers_could_not_deliver_can_be_read() -> None:
    assert Settings.from_environment(ENVIRONMENT).drain_schedule_dead_letters_arn is None
    chosen = {
        names.DRAIN_SCHEDULE_DEAD_LETTERS_ARN: "arn:aws:sqs:us-east-1:123456789012:Undelivered"
    }
    settings = Settings.from_environment(ENVIRONMENT | chosen)
    assert (
        settings.drain_schedule_dead_letters_arn
        == chosen[names.DRAIN_SCHEDULE_DEAD_LETTERS_ARN]
    )


def test_the_tags_of_what_is_launched_are_as_the_stack_says() -> None:
    assert Settings.from_environment(ENVIRONMENT).launch_tags == {}
    assert Settings.from_environment(
        ENVIRONMENT | {names.LAUNCH_TAGS: '{"team": "ml"}'}
    ).launch_tags == {"team": "ml"}


@pytest.mark.parametrize("text", ["{", "[]", '{"team": 1}'])
def test_tags_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=names.LAUNCH_TAGS):
        Settings.from_environment(ENVIRONMENT | {names.LAUNCH_TAGS: text})


def test_what_rebalancing_and_failed_checks_do_is_as_the_stack_says() -> None:
    settings = Settings.from_environment(ENVIRONMENT)
    assert (settings.rebalance_policy, settings.instance_status_policy) == (
        "ignore",
        "replace",
    )
    chosen = {
        names.REBALANCE_POLICY: "launch-before-drain",
        names.INSTANCE_STATUS_POLICY: "report",
    }
    settings = Settings.from_environment(ENVIRONMENT | chosen)
    assert (settings.rebalance_policy, settings.instance_status_policy) == (
        "launch-before-drain",
        "report",
    )


@pytest.mark.parametrize("name", [names.REBALANCE_POLICY, names.INSTANCE_STATUS_POLICY])
def test_a_policy_that_nobody_offers_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment(ENVIRONMENT | {name: "panic"})


def test_the_planner_decides_as_the_stack_says() -> None:
    untold = Settings.from_environment(ENVIRONMENT)
    assert untold.scheduling == SchedulingPolicy()
    told = Settings.from_environment(
        ENVIRONMENT | planner_environment(DeploymentSettings())
    )
    assert (told.scheduling, told.solve_budget) == (untold.scheduling, untold.solve_budget)

    chosen = DeploymentSettings.model_validate(
        {
            "preferencePolicy": "Ignore",
            "minValuesPolicy": "BestEffort",
            "noDurationPolicy": "Avoid",
            "spotToSpotConsolidation": True,
            "spotPoolSharePercent": 30,
            "reservedFloorPercent": 25,
            "nodeOverheadMicroUsdPerHour": 5_000,
            "solveBudgetS": 20,
        }
    )
    settings = Settings.from_environment(ENVIRONMENT | planner_environment(chosen))

    assert settings.solve_budget.total_seconds() == 20
    assert settings.scheduling == SchedulingPolicy(
        preference_policy=PreferencePolicy.IGNORE,
        min_values_policy=MinValuesPolicy.BEST_EFFORT,
        no_duration_policy=NoDurationPolicy.AVOID,
        spot_to_spot_consolidation=True,
        spot_pool_share_percent=30,
        reserved_floor_percent=25,
        node_overhead_micro_usd_per_hour=5_000,
    )


@pytest.mark.parametrize("name", sorted(planner_environment(DeploymentSettings())))
def test_a_setting_of_the_planner_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment(ENVIRONMENT | {name: "-1"})


@pytest.mark.parametrize("text", ["much", "1.5", "-0.1"])
def test_an_overhead_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        Settings.from_environment({**ENVIRONMENT, VM_MEMORY_OVERHEAD_PERCENT: text})


def event(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m-{index}", "body": body} for index, body in enumerate(bodies)
        ]
    }


def test_transient_trouble_brings_back_only_its_own_message() -> None:
    seen = []

    def handle(message: QueueMessage) -> None:
        seen.append(message.body)
        if message.body == "throttled":
            raise ThrottledError("ThrottlingException", "PutItem")
        if message.body == "raced":
            raise ConflictError(["row"])

    answer = each_message(event("a", "throttled", "b", "raced", "c"), handle)

    assert answer == {
        "batchItemFailures": [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-3"}]
    }
    assert seen == ["a", "throttled", "b", "raced", "c"]


def test_a_message_that_fails_comes_back_after_longer_and_longer() -> None:
    received = [
        QueueMessage("m", "a", {"ApproximateReceiveCount": str(count)})
        for count in range(1, 11)
    ]
    assert [message.retry_delay_s for message in received] == [2, 4, 8, 16, 32, *[60] * 5]


def test_a_bug_brings_back_its_own_message_alone_after_the_neighbours_were_served() -> None:
    seen = []

    def handle(message: QueueMessage) -> None:
        seen.append(message.body)
        if message.body == "bug":
            raise ZeroDivisionError

    assert each_message(event("bug", "a", "b"), handle) == {
        "batchItemFailures": [{"itemIdentifier": "m-0"}]
    }
    assert seen == ["bug", "a", "b"]


def test_a_bug_that_leaves_no_message_served_fails_the_invocation() -> None:
    def handle(message: QueueMessage) -> None:
        raise KeyError(message.body)

    with pytest.raises(KeyError, match="one"):
        each_message(event("one", "two"), handle)


GOOD = {
    "action": "submit",
    "workload": workload_manifest("research/train", 1, {"cpu": "1"}),
}


def changed(path: str, value: Any) -> str:
    """Return the good message with one value replaced."""
    body = json.loads(json.dumps(GOOD))
    *steps, last = path.split(".")
    place = body
    for step in steps:
        place = place[step]
    place[last] = value
    return json.dumps(body)


BAD = {
    "not JSON": "{nonsense",
    "not an object": "[1, 2]",
    "empty": "",
    "no action": json.dumps({"workload": GOOD["workload"]}),
    "unknown action": changed("action", "sumbit"),
    "wrong type": changed("workload.spec.replicas", "many"),
    "unknown field": changed("workload.spec.replica", 3),
    "absurd number": changed("workload.spec.replicas", 10**30),
    "negative": changed("workload.spec.replicas", -1),
    "quantity": changed("workload.spec.resources.requests.cpu", "1e999"),
    "name": changed("workload.metadata.name", "../../etc"),
    "newlines": changed("workload.metadata.name", 'x\n{"level":"ERROR"}'),
    "a mebibyte": changed("workload.metadata.annotations", {"note": "x" * (1 << 20)}),
    "deep": "[" * 100_000,
    "nan": '{"action": NaN}',
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_understood_is_put_away_with_its_reason(body: str) -> None:
    letters, bus = MemoryDeadLetters(), MemoryBus()

    with pytest.raises(ManifestError) as caught:
        parse_demand(body)
    RejectDemand(letters, bus).reject("m-1", body, caught.value.problems)

    ((kept, attributes),) = letters.letters
    assert kept == body
    assert attributes["MessageId"] == "m-1"
    assert attributes["Reason"]
    assert attributes["Reason"].isascii()
    assert "\n" not in attributes["Reason"]
    (rejected,) = bus.of("Workload Rejected")
    assert rejected["problems"]
    assert len(json.dumps(rejected)) < 20_000


def test_a_rejection_names_the_workload_and_the_field() -> None:
    bus = MemoryBus()
    body = changed("workload.spec.replica", 3)
    with pytest.raises(ManifestError) as caught:
        parse_demand(body)

    RejectDemand(MemoryDeadLetters(), bus).reject("m-1", body, caught.value.problems)

    (rejected,) = bus.of("Workload Rejected")
    assert rejected["workload"] == {"namespace": "research", "name": "train"}
    assert rejected["problems"][0]["path"] == "workload.spec.replica"
    assert rejected["problems"][0]["suggestion"] == "replicas"


@given(
    st.text(max_size=300) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1"))
)
def test_no_text_breaks_the_intake(body: str) -> None:
    try:
        parse_demand(body)
    except ManifestError as error:
        letters = MemoryDeadLetters()
        RejectDemand(letters, MemoryBus()).reject("m-1", body, error.problems)
        assert letters.letters


def test_only_counters_that_counted_something_are_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @observed
    def handler(event: dict[str, Any], _context: Any) -> None:
        count("Launched", event["launched"])
        count("Refused", 0)

    handler({"launched": 1}, None)  # writes what tests before this one counted, too
    capsys.readouterr()
    handler({"launched": 0}, None)
    assert capsys.readouterr().out == ""
    handler({"launched": 3}, None)
    written = json.loads(capsys.readouterr().out)
    assert written["Launched"] == [3.0]
    assert "Refused" not in written
