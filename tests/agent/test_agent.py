"""The agent on a node: what it starts, tells and ends, and what it does when nobody answers."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from reservoir.agent.configuration import (
    Configuration,
    ConfigurationError,
    Run,
    read_configuration,
)
from reservoir.agent.machine import LONGEST_PAUSE_S, ProcessId
from reservoir.manifests.reports import REPORTS, parse_report
from tests.agent.worlds import KEY, RUN, Node

FIRST, SECOND = ProcessId(KEY, 0), ProcessId(KEY, 1)


def test_it_waits_until_it_is_known_then_starts_each_replica_and_tells_that_they_are_ready() -> (
    None
):
    node = Node()
    node.pass_s(20)
    assert node.work.started == []
    node.tell(replicas=2)
    node.pass_s(12)
    assert node.work.started == [FIRST, SECOND]
    assert node.work.running[SECOND] == {
        "RESERVOIR_NODE_CLAIM": "nc-1",
        "RESERVOIR_WORKLOAD": KEY,
        "RESERVOIR_WORKLOAD_NAMESPACE": "research",
        "RESERVOIR_WORKLOAD_NAME": "train",
        "RESERVOIR_CORRELATION_ID": "m-1",
        "RESERVOIR_REPLICA": "1",
        "RESERVOIR_REPLICAS": "1",
    }
    (ready,) = node.reports("ready")
    assert ready["replicas"] == 2


def test_one_process_for_all_replicas_of_the_node() -> None:
    node = Node(Run("*/*", RUN.command, per_node=True))
    node.tell(replicas=8)
    node.pass_s(10)
    assert node.work.started == [FIRST]
    assert node.work.running[FIRST]["RESERVOIR_REPLICAS"] == "8"
    node.work.end(FIRST)
    node.pass_s(2)
    assert node.reports("finished")[-1]["replicas"] == 8


def test_an_idle_node_asks_every_four_seconds() -> None:
    node = Node()
    node.tell()
    node.pass_s(60)
    before = node.aws.calls
    node.pass_s(3_600)
    assert node.aws.calls - before <= 900, "docs/nodes.md says what that costs"


@pytest.mark.parametrize("after_s", range(60, 66))
def test_an_idle_node_hears_of_its_drain_within_five_seconds(after_s: int) -> None:
    node = Node()
    node.tell()
    node.pass_s(after_s)
    node.tell(drain_s=480)
    node.pass_s(5)
    assert node.work.hooks.keys() == {KEY}, "it checkpoints"


def test_who_cannot_ask_does_so_less_and_less_often_and_at_once_afterwards() -> None:
    node = Node()
    node.tell()
    node.pass_s(60)
    node.aws.is_down = True
    asked_at: list[int] = []
    for second in range(300):
        before = node.aws.calls
        node.pass_s()
        if node.aws.calls > before:
            asked_at.append(second)
    pauses = [later - earlier for earlier, later in pairwise(asked_at)]
    assert pauses == [5, 10, 20, 40, 60, 60, 60]
    node.aws.is_down = False
    node.pass_s(60)
    node.tell(drain_s=480)
    node.pass_s(5)
    assert node.work.hooks.keys() == {KEY}


def test_what_finishes_is_told_in_all_and_not_started_again() -> None:
    node = Node()
    node.tell(replicas=2)
    node.pass_s(10)
    node.work.end(SECOND, tail="done\n")
    node.pass_s(2)
    node.work.end(FIRST)
    node.pass_s(120)
    assert [report["replicas"] for report in node.reports("finished")] == [1, 2]
    assert node.reports("finished")[0]["logTail"] == "done\n"
    assert node.work.started == [FIRST, SECOND]


def test_what_runs_is_told_in_all_and_what_finished_at_once_has_run() -> None:
    node = Node()
    node.tell(replicas=2)
    node.pass_s(1)
    node.work.end(SECOND)
    node.pass_s(10)
    assert [report["replicas"] for report in node.reports("ready")] == [1, 2]


def test_an_agent_that_begins_anew_counts_on() -> None:
    node = Node()
    node.tell(replicas=1, finished=3)
    node.pass_s(10)
    (process,) = node.work.started
    assert process.number == 3
    node.work.end(process)
    node.pass_s(2)
    assert node.reports("finished")[0]["replicas"] == 4


def test_what_fails_is_started_again_after_pauses_that_grow_to_a_bound() -> None:
    node = Node()
    node.tell()
    node.pass_s(2)
    for _ in range(8):
        node.work.end(FIRST, 1, "no disk\n")
        node.pass_s(LONGEST_PAUSE_S + 2)
    failed = node.reports("failed")
    assert [report["nextStartInS"] for report in failed] == [
        10,
        20,
        40,
        80,
        160,
        300,
        300,
        300,
    ]
    assert [report["restarts"] for report in failed] == list(range(8))
    node.pass_s(600)
    node.work.end(FIRST, 1)
    node.pass_s(2)
    assert node.reports("failed")[-1]["restarts"] == 0, "it had recovered"


def test_a_drain_checkpoints_then_stops_then_releases() -> None:
    node = Node()
    node.tell(replicas=2)
    node.pass_s(70)
    node.tell(replicas=2, drain_s=480)
    node.pass_s(61)
    assert node.work.hooks[KEY]["RESERVOIR_DRAIN_REASON"] == "CapacityBlockEnding"
    assert node.work.signals == [], "nothing is stopped before its state is safe"
    node.work.end_hook(KEY)
    node.pass_s(3)
    assert node.work.signals == [(FIRST, False), (SECOND, False)]
    assert len(node.reports("released")) == 1
    assert node.reports("failed") == []
    assert node.reports("finished") == []
    node.pass_s(300)
    assert len(node.work.started) == 2
    assert len(node.reports("released")) == 1


def test_what_finishes_during_its_checkpoint_has_finished() -> None:
    node = Node()
    node.tell()
    node.pass_s(70)
    node.tell(drain_s=480)
    node.pass_s(61)
    node.work.end(FIRST)
    node.pass_s(2)
    assert len(node.reports("finished")) == 1


def test_at_the_deadline_what_still_runs_is_killed() -> None:
    node = Node()
    node.work.heeds_signals = False
    node.tell()
    node.pass_s(70)
    node.tell(drain_s=120)
    node.pass_s(105)
    assert not any(kill for _, kill in node.work.signals), (
        "the checkpoint has not ended yet"
    )
    node.pass_s(10)
    assert node.work.signals == [(FIRST, False), (FIRST, True)]
    assert len(node.reports("released")) == 1


def test_without_the_control_plane_work_goes_on_and_stops_at_the_deadline() -> None:
    node = Node()
    node.tell()
    node.pass_s(70)
    node.tell(drain_s=3_600)
    node.pass_s(61)
    node.aws.is_down = True
    node.pass_s(3_400)
    assert node.work.running.keys() == {FIRST}
    node.pass_s(200)
    assert node.work.running == {}
    assert node.reports("released") == []
    node.aws.is_down = False
    node.pass_s(61)
    assert len(node.reports("released")) == 1, "it is told once somebody listens"


def test_a_node_in_a_block_goes_by_itself_when_nobody_is_there_to_tell_it() -> None:
    node = Node()
    node.work.heeds_signals = False
    node.tell(block_drain_s=(3_600, 4_080))
    node.pass_s(70)
    node.aws.is_down = True
    node.pass_s(3_640)
    assert node.work.hooks == {}, "the control plane may still tell it"
    node.pass_s(20)
    assert node.work.hooks[KEY]["RESERVOIR_DRAIN_REASON"] == "CapacityBlockEnding"
    node.work.end_hook(KEY)
    node.pass_s(300)
    assert node.work.running.keys() == {FIRST}
    node.pass_s(100)
    assert node.work.signals == [(FIRST, False), (FIRST, True)]


def test_who_is_told_in_time_does_not_go_by_itself() -> None:
    node = Node()
    node.tell(block_drain_s=(100, 580))
    node.pass_s(110)
    node.tell(block_drain_s=(-10, 470), drain_s=470)
    node.pass_s(120)
    node.work.end_hook(KEY)
    node.pass_s(200)
    assert node.work.signals == [(FIRST, False)]
    assert len(node.reports("released")) == 1


def test_what_it_released_before_anybody_awaited_it_is_said_again_when_it_is_told() -> None:
    node = Node(Run("research/*", RUN.command))
    node.tell(block_drain_s=(100, 580))
    node.pass_s(240)
    assert len(node.reports("released")) == 1
    node.tell(block_drain_s=(-140, 340), drain_s=340)
    node.pass_s(200)
    assert len(node.reports("released")) == 2
    assert node.work.running == {}


def test_a_node_whose_block_was_extended_meanwhile_stays_and_starts_its_work_again() -> (
    None
):
    node = Node()
    node.tell(replicas=2, block_drain_s=(100, 580))
    node.pass_s(70)
    node.aws.is_down = True
    node.pass_s(170)
    node.aws.is_down = False
    node.tell(replicas=2, block_drain_s=(86_400, 86_880))
    node.pass_s(120)
    assert node.work.started == [FIRST, SECOND], "its checkpoint has not ended yet"
    node.work.end_hook(KEY)
    node.pass_s(130)
    assert node.work.started == [FIRST, SECOND] * 2
    assert node.reports("ready")[-1]["replicas"] == 2
    assert node.work.running.keys() == {FIRST, SECOND}


def test_nobody_answers_for_a_day_and_nothing_is_stopped() -> None:
    node = Node()
    node.tell()
    node.pass_s(70)
    node.aws.is_down = True
    calls = node.aws.calls
    node.pass_s(86_400)
    assert node.work.running.keys() == {FIRST}
    assert node.work.signals == []
    assert node.aws.calls - calls <= 86_400 / 60 + 4


def test_ec2s_own_notice_begins_the_drain_before_anybody_has_told() -> None:
    node = Node()
    node.tell()
    node.pass_s(70)
    node.aws.interrupted = node.now_s + 120
    node.pass_s(6)
    assert node.work.hooks[KEY]["RESERVOIR_DRAIN_REASON"] == "Interruption"


def test_what_is_held_starts_once_it_is_let() -> None:
    node = Node()
    node.tell(replicas=0, held=(2, 900))
    node.pass_s(300)
    assert node.work.started == []
    node.tell(replicas=2)
    node.pass_s(10)
    assert node.work.started == [FIRST, SECOND]
    assert "RESERVOIR_PREDECESSORS" not in node.work.running[FIRST]


def test_what_is_held_starts_at_the_deadline_of_those_it_follows_though_nobody_answers() -> (
    None
):
    node = Node()
    node.tell(replicas=0, held=(2, 900))
    node.pass_s(60)
    node.aws.is_down = True
    node.pass_s(839)
    assert node.work.started == []
    node.pass_s(3)
    assert node.work.started == [FIRST, SECOND]
    assert node.work.running[FIRST]["RESERVOIR_PREDECESSORS"] == "nc-0"
    node.pass_s(600)
    assert node.work.started == [FIRST, SECOND], "once"
    node.aws.is_down = False
    node.tell(replicas=2)
    node.pass_s(70)
    assert node.work.started == [FIRST, SECOND]
    assert node.work.signals == []


def test_a_launcher_for_the_node_starts_once_for_all_that_were_held() -> None:
    node = Node(Run("*/*", RUN.command, per_node=True))
    node.tell(replicas=0, held=(8, 900))
    node.pass_s(60)
    assert node.work.started == []
    node.tell(replicas=8)
    node.pass_s(10)
    assert node.work.running[FIRST]["RESERVOIR_REPLICAS"] == "8"


def test_a_node_that_goes_while_it_holds_starts_nothing_and_releases() -> None:
    node = Node()
    node.tell(replicas=0, held=(1, 900))
    node.pass_s(20)
    node.tell(replicas=1, drain_s=480)
    node.pass_s(10)
    assert node.work.started == []
    assert len(node.reports("released")) == 1


def test_who_follows_at_will_is_told_whom() -> None:
    node = Node()
    node.tell(replicas=1)
    assert node.aws.known is not None
    (hosted,) = node.aws.known["workloads"]
    hosted["predecessors"] = ["nc-0", "nc-9"]
    node.pass_s(10)
    assert node.work.running[FIRST]["RESERVOIR_PREDECESSORS"] == "nc-0,nc-9"


def test_replicas_that_are_taken_off_are_stopped() -> None:
    node = Node()
    node.tell(replicas=2)
    node.pass_s(70)
    node.tell(replicas=1)
    node.pass_s(61)
    assert node.work.signals == [(SECOND, False)]
    node.tell(replicas=0)
    node.pass_s(61)
    assert node.work.running == {}
    assert node.reports("failed") == []


SEAT = {
    "nodeRank": 1,
    "firstRank": 2,
    "worldSize": 4,
    "addresses": ["10.0.0.3", "10.0.0.7"],
}
GANG = Run("research/*", RUN.command, RUN.checkpoint, gang=True)


def test_a_node_of_a_gang_says_where_it_is_and_starts_nothing_before_all_are_there() -> (
    None
):
    node = Node(GANG)
    node.tell(replicas=2)
    node.pass_s(130)
    assert [
        (told["workload"]["name"], told["address"]) for told in node.reports("arrived")
    ] == [("train", "10.0.0.7")] * 3
    assert node.work.started == []
    node.tell(replicas=2, gang=SEAT)
    node.pass_s(70)
    assert node.work.started == [FIRST, SECOND]
    assert len(node.reports("arrived")) == 3


def test_replicas_of_a_gang_are_told_their_ranks_and_where_the_others_are() -> None:
    node = Node(GANG)
    node.tell(replicas=2, gang=SEAT)
    node.pass_s(2)
    told = [
        {name: value for name, value in node.work.running[it].items() if name in NAMES}
        for it in (FIRST, SECOND)
    ]
    common = {
        "RESERVOIR_GANG_ADDRESSES": "10.0.0.3,10.0.0.7",
        "MASTER_ADDR": "10.0.0.3",
        "MASTER_PORT": "29500",
        "NODE_RANK": "1",
        "NNODES": "2",
        "WORLD_SIZE": "4",
    }
    assert told == [
        {**common, "RANK": "2", "LOCAL_RANK": "0"},
        {**common, "RANK": "3", "LOCAL_RANK": "1"},
    ]


NAMES = {
    "RESERVOIR_GANG_ADDRESSES",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "NNODES",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
}


def test_a_launcher_of_a_node_leaves_local_ranks_to_itself() -> None:
    node = Node(Run("*/*", RUN.command, per_node=True, gang=True))
    node.tell(replicas=2, gang=SEAT)
    node.pass_s(2)
    assert {"RANK": "2", "NODE_RANK": "1"}.items() <= node.work.running[FIRST].items()
    assert "LOCAL_RANK" not in node.work.running[FIRST]


def test_when_a_member_was_replaced_what_runs_goes_on_and_what_starts_anew_knows_the_new_one() -> (
    None
):
    node = Node(GANG)
    node.tell(gang=SEAT)
    node.pass_s(70)
    node.tell(gang={**SEAT, "addresses": ["10.0.0.9", "10.0.0.7"]})
    node.pass_s(70)
    assert node.work.signals == [], "nobody but the launcher knows whether it can go on"
    node.work.end(FIRST, 1, "lost rank 0\n")
    node.pass_s(15)
    assert node.work.running[FIRST]["MASTER_ADDR"] == "10.0.0.9"


def test_a_node_whose_gang_never_meets_goes_when_it_must() -> None:
    node = Node(GANG)
    node.tell(replicas=2)
    node.pass_s(70)
    node.tell(replicas=2, drain_s=480)
    node.pass_s(70)
    assert len(node.reports("released")) == 1
    assert node.work.started == []


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a b", "$(reboot)", "", "-rf", "a/b", "UPPER"]
)
def test_a_name_that_is_none_starts_nothing(name: str) -> None:
    node = Node(Run("*", RUN.command))
    node.tell()
    assert node.aws.known is not None
    node.aws.known["workloads"][0]["name"] = name
    node.pass_s(70)
    assert node.work.started == []


def test_every_report_is_one_that_the_deployment_reads() -> None:
    node = Node(GANG)
    node.tell(replicas=2)
    node.pass_s(6)
    node.tell(replicas=2, gang=SEAT)
    node.pass_s(20)
    node.work.end(FIRST, -11, "x" * 2_048)
    node.work.end(SECOND)
    node.pass_s(2)
    node.tell(drain_s=60)
    node.pass_s(70)
    assert {report["report"] for report in node.aws.reports} == set(REPORTS)
    for report in node.aws.reports:
        parse_report(json.dumps(report))


GOOD = """
node_claims_table = "claims"
reports_queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/reports"
poll_s = 30

[[run]]
workload = "research/*"
command = ["/opt/train", "--fast"]
checkpoint = ["/opt/checkpoint"]
per_node = true
"""


def test_the_file_says_what_is_run(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(GOOD)
    found = read_configuration(file)
    assert isinstance(found, Configuration)
    assert found.poll_s == 30
    assert found.run_for("research/a") == Run(
        "research/*", ("/opt/train", "--fast"), ("/opt/checkpoint",), per_node=True
    )
    assert found.run_for("web/a") is None


OPTIONS_ALONE = GOOD.replace("command =", "container_options =")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node_claims_table = 1",
        GOOD + "\nnot = toml =",
        GOOD.replace("command", "comand"),
        'run = "x"',
        GOOD[:150],
        GOOD.replace("command =", "container_options ="),
        GOOD.replace("command =", 'user = "someone"\nimage ="a/b:1"\ncommand ='),
    ],
)
def test_a_file_that_says_too_little_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"agent\.toml"):
        read_configuration(file)
