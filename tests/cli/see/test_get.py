"""``reservoir get`` on a world in which things have happened."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.purchases import MemoryPurchases
from lab.fakes.system import START
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.cli.app import app
from reservoir.cli.nouns import workloads
from reservoir.cli.nouns.noun import Facts, Selection, Selector, age, ahead, price, span
from reservoir.cli.nouns.registry import NOUNS, noun_of
from reservoir.cli.nouns.selection import label_selector
from reservoir.cli.output import as_table
from reservoir.core.capacity.unavailable_offerings import Market
from reservoir.core.history.past_event import PastEvent
from reservoir.core.launching.placed_terms import terms_of
from reservoir.core.model.capacity_reservation import LentUnits, ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.sharing.reading_turns import ReadingBound
from reservoir.core.what_if.added_capacity import parse_added_capacity
from reservoir.manifests.answers.operations import parse_request
from reservoir.ports.capacity_blocks import BlockOffering
from reservoir.ports.system import Sender
from reservoir.runtime.composition.operate import operate_from
from reservoir.runtime.composition.parts.planning import solver_from
from reservoir.usecases.listing.list_workloads import ListWorkloads
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.solver import Solver
from tests.cli.world_stack import OwnOutside, invoke

HOUR = timedelta(hours=1)
SMALL = {"namespace": "research", "name": "small"}
ASKED = {"blocks": ("p5.48xlarge",)}  # what has to be said, because EC2 wants to know it


@dataclass(frozen=True)
class Shop:
    """Sells blocks of p5.48xlarge, the first of which begins in five hours."""

    now: datetime

    def offerings(
        self, instance_type: str, *, count: int, hours: int
    ) -> list[BlockOffering]:
        if instance_type != "p5.48xlarge":
            return []
        begin = self.now + 5 * HOUR
        facts = (
            instance_type,
            "us-east-1b",
            count,
            begin,
            begin + hours * HOUR,
            f"{30 * count * hours}.0000",
            "USD",
        )
        return [BlockOffering(f"cb-{count}-{hours}", *facts)]

    def extensions(self, reservation_id: str, *, hours: int) -> list[BlockOffering]:
        raise NotImplementedError(f"extends nothing: {reservation_id} by {hours}h")


@dataclass
class Stack(OwnOutside):
    """The part of ``reservoir.cli.stack.connection.Connection`` that reading needs."""

    world: DisruptWorld
    history: MemoryHistory = field(default_factory=MemoryHistory)
    accounts: MemoryAccounts = field(default_factory=MemoryAccounts)
    pauses_s: list[float] = field(default_factory=list)
    happens: list[Callable[[], object]] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        """Let the next thing happen; Ctrl-C when there is none."""
        self.pauses_s.append(seconds)
        if not self.happens:
            raise KeyboardInterrupt
        self.happens.pop(0)()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.state, name)

    @property
    def capacity_blocks(self) -> "Shop":
        return Shop(self.world.clock.now())

    @property
    def purchases(self) -> MemoryPurchases:
        return MemoryPurchases()

    @property
    def policy(self) -> Any:
        return self.world.store

    @property
    def snapshots(self) -> SnapshotGatherer:
        return self.world.gatherer()

    @property
    def solver(self) -> Solver:
        return solver_from(self.world.outside())

    @property
    def clock(self) -> Any:
        return self.world.clock


@pytest.fixture
def world() -> DisruptWorld:
    """One job in a reservation, one on demand beside it; another waits."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", replicas=2, gpus=8, labels={"stage": "prod"})
    world.minutes(3)
    world.submit("huge", gpus=9)
    world.minutes(1)
    return world


def run(world: DisruptWorld, *arguments: str) -> Result:
    return invoke(Stack(world), *arguments)


def table(world: DisruptWorld, *arguments: str) -> list[list[str]]:
    """Return the words of each row; nothing may be said beside the table."""
    result = run(world, "get", *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return [line.split() for line in result.stdout.splitlines()[1:]]


def names(world: DisruptWorld, *arguments: str) -> list[str]:
    result = run(world, "get", *arguments, "-o", "name")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def items(world: DisruptWorld, *arguments: str) -> Any:
    result = run(world, "get", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["apiVersion"], found["kind"]) == ("reservoir/v1", "List")
    return found["items"]


def test_workloads_that_run_and_those_that_wait(world: DisruptWorld) -> None:
    waiting, placed = table(world, "workloads", "-n", "research")
    assert waiting[:6] == ["research", "huge", "1", "0", "waiting", "4m8s"]
    assert "Incompatible:" in waiting or "TooLarge:" in waiting
    assert placed == ["research", "train", "2", "2", "placed", "4m8s", "-"]


def test_what_there_was_no_room_to_read_is_said_and_found_by_its_namespace(
    world: DisruptWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit("more", gpus=9)
    world.submit("small", gpus=9, namespace="other")
    small = partial(ListWorkloads, bound=ReadingBound(rows=1, page_rows=1))
    monkeypatch.setattr(workloads, "ListWorkloads", small)

    listed = run(world, "get", "workloads", "-A", "-o", "name")
    assert listed.exit_code == 0
    # what runs is listed whole, of what waits as much as there is room for
    assert len(listed.stdout.splitlines()) == 2
    assert "2 more workloads wait and were not read" in listed.stderr
    assert names(world, "workloads", "-n", "other") == ["workload/other/small"]
    named = run(world, "get", "workload", "research/more", "-o", "name")
    assert (named.stdout, named.stderr) == ("workload/research/more\n", "")


def test_workloads_say_which_generations_run(world: DisruptWorld) -> None:
    record = world.state.workloads.get("research/train")
    assert record is not None
    assert record.workload is not None
    running = terms_of(record.workload)
    wanted = replace(
        record.workload,
        generation=record.generation + 3,
        requests=Resources.of({"cpu": 1}),
    )
    changed = replace(
        record, generation=wanted.generation, workload=wanted, former=(running,)
    )
    world.state.workloads.put(changed, expected_revision=record.revision)

    (row,) = items(world, "workloads", "research/train")
    assert row["spec"]["generation"] == record.generation + 3
    assert row["status"]["outdatedGenerations"] == [
        {"generation": record.generation, "replicas": row["status"]["outdated"]}
    ]
    assert row["status"]["outdated"] == record.placed_count > 0
    wide = run(world, "get", "workloads", "research/train", "-o", "wide").stdout
    shown = f"{wanted.generation}, {record.placed_count} of {record.generation}"
    assert shown in re.sub(" +", " ", wide)


def test_nodes_with_their_prices_in_usd(world: DisruptWorld) -> None:
    rows = {row[4]: row for row in table(world, "nodes")}
    assert rows["reserved"][5:8] == ["gpu", "1", "0.00"]
    assert rows["on-demand"][5:8] == ["gpu", "1", "98.32"]
    (paid,) = [
        item
        for item in items(world, "nodes")
        if item["spec"]["capacityType"] == "on-demand"
    ]
    assert paid["spec"]["priceMicroUsdPerHour"] == 98_320_000


def test_a_node_is_found_by_its_instance(world: DisruptWorld) -> None:
    for claim in world.live():
        assert names(world, "node", str(claim.instance_id)) == [f"node/{claim.id}"]


def test_reservations_say_who_holds_their_units(world: DisruptWorld) -> None:
    (reserved,) = items(world, "reservations")
    holder = {"namespace": "research", "name": "train", "units": 1, "replicas": 1}
    assert reserved["status"]["holders"] == [holder]
    (claim,) = [each for each in world.live() if each.offering.reservation_id == "cr-1"]
    ask_to_drain(world, claim.id)
    (draining,) = items(world, "reservations")
    assert draining["status"]["holders"] == [holder], (
        "what leaves a node holds its unit until it has left"
    )


def ask_to_drain(world: DisruptWorld, claim_id: str) -> None:
    """Drain a node by hand."""
    request = parse_request({"verb": "drain", "names": [claim_id], "reason": "OPS-7"})
    operate_from(world.outside()).run(request, Sender("arn:aws:iam::1:user/ada", "AIDA"))


def test_reservations_say_whose_their_units_are(world: DisruptWorld) -> None:
    assert table(world, "reservations") == [
        [
            "cr-1",
            "p5.48xlarge",
            "us-east-1a",
            "default",
            "active",
            "1",
            "1",
            "0",
            "0",
            "-",
            "research/train",
            "x1",
            "-",
        ]
    ]
    world.resize("cr-1", 3)
    world.minute()
    (found,) = items(world, "cr")
    assert {key: found["status"][key] for key in ("total", "ours", "others", "free")} in (
        {"total": 3, "ours": 1, "others": 0, "free": 2},
        {"total": 3, "ours": 2, "others": 0, "free": 1},
    )


def test_reservations_of_a_pool_are_those_that_it_could_use(world: DisruptWorld) -> None:
    world.add_reservation("cr-unselected")
    world.select("cr-1")
    assert names(world, "reservations") == ["reservation/cr-1", "reservation/cr-unselected"]
    assert names(world, "reservations", "--pool", "gpu") == ["reservation/cr-1"]
    left_out = run(
        world, "get", "reservations", "cr-unselected", "--pool", "gpu", "-o", "name"
    )
    assert (left_out.exit_code, left_out.stdout, left_out.stderr) == (0, "", "")


def test_offers_say_what_they_cost_and_why_they_rest(world: DisruptWorld) -> None:
    key = OfferingKey("p5.48xlarge", "us-east-1a", "use1-az1", CapacityType.ON_DEMAND)
    until = world.clock.now() + HOUR
    world.state.offerings.mark_unavailable([key], until=until)
    world.state.offerings.mark_unavailable(
        [Market(CapacityType.SPOT)], until=until, reason="quota \x1b[31m"
    )
    found = [row for row in table(world, "offerings", "p5") if row[1] == "us-east-1a"]
    assert found[0] == [
        "p5.48xlarge",
        "us-east-1a",
        "reserved",
        "0.00",
        "0",
        "full",
        "-",
        "cr-1",
        "-",
    ]
    assert found[1][2:] == [
        "spot",
        "32.7733",
        "-",
        "resting",
        "1h",
        "-",
        "quota",
        "\\x1b[31m",
    ]
    assert found[2][2:] == [
        "on-demand",
        "98.32",
        "-",
        "resting",
        "1h",
        "-",
        "EC2",
        "had",
        "no",
        "capacity",
    ]
    assert names(world, "offerings", "p5.48xlarge", "--state", "available") == [
        "offering/p5.48xlarge/us-east-1b/on-demand",
    ]


def test_offers_of_a_pool_are_those_that_it_allows(world: DisruptWorld) -> None:
    assert {
        item["spec"]["capacityType"] for item in items(world, "offerings", "--pool", "gpu")
    } == {
        "reserved",
        "on-demand",
    }
    world.add_reservation("cr-unselected")
    world.select("cr-1")
    reserved = [
        item["spec"].get("capacityReservationId")
        for item in items(world, "offerings", "--pool", "gpu")
    ]
    assert set(reserved) == {"cr-1", None}
    refused = run(world, "get", "offerings", "--pool", "gpus")
    assert (refused.exit_code, refused.stderr) == (2, "nodepool/gpus does not exist\n")


def test_decisions_are_those_that_the_fleet_goes_back_to(world: DisruptWorld) -> None:
    plans = {str(claim.plan_id) for claim in world.live()}
    assert set(names(world, "decisions")) == {"decision/disruption-latest"} | {
        f"decision/{each}" for each in plans
    }
    (plan,) = items(world, "decision", *plans)
    assert plan["status"]["summary"]["launches"] == len(plan["status"]["nodes"]) == 2


@pytest.mark.parametrize(
    ("chosen", "other"),
    [
        (["--pool", "gpu"], ["--pool", "cpu"]),
        (["--state", "running"], ["--state", "draining"]),
        (["-n", "research"], ["-n", "default"]),
        (
            ["-l", "karpenter.sh/capacity-type=reserved"],
            ["-l", "karpenter.sh/capacity-type=spot"],
        ),
        (
            ["-l", "karpenter.sh/capacity-type=on-demand", "--pool", "gpu"],
            ["-l", "nothing=here", "--pool", "gpu"],
        ),
    ],
)
def test_decisions_are_chosen_by_the_nodes_that_go_back_to_them(
    world: DisruptWorld, chosen: list[str], other: list[str]
) -> None:
    plans = {f"decision/{claim.plan_id}" for claim in world.live()}
    assert set(names(world, "decisions", *chosen)) == plans
    assert names(world, "decisions", *other) == []


def test_a_decision_is_chosen_by_one_of_its_nodes_and_not_by_several_together() -> None:
    names_of_it = frozenset({"plan-1"})
    nodes = (
        Facts(names_of_it, pools=("gpu",), state="running"),
        Facts(names_of_it, pools=("cpu",), state="draining"),
    )
    facts = Facts(names_of_it, pools=(), through=nodes)
    assert Selection(pool="gpu", state="running").has(facts)
    assert not Selection(pool="gpu", state="draining").has(facts)


LATELY: dict[str, dict[str, Any]] = {
    "Workload Pending": {
        "workload": {"namespace": "research", "name": "huge"},
        "replicas": 1,
        "message": "full",
    },
    "Node Draining": {
        "node": {"nodeClaim": "nc-gone", "nodePool": "cpu"},
        "reason": "Requested",
    },
    "Policy Changed": {
        "changes": [{"kind": "NodePool", "name": "gpu", "change": "updated"}]
    },
    "Reservation Idle": {"capacityReservationId": "cr-1", "idleCount": 1},
}


@pytest.mark.parametrize(
    ("selectors", "told"),
    [
        ([], list(LATELY)),
        (["-n", "research"], ["Workload Pending"]),
        (["-n", "default"], []),
        (["--pool", "cpu"], ["Node Draining"]),
        (["--pool", "gpu"], ["Policy Changed"]),
        (["--state", "draining"], ["Node Draining"]),
        (["--state", "Idle"], ["Reservation Idle"]),
        (["-l", "stage=test"], ["Workload Pending"]),
        (["-l", "team=ml"], ["Reservation Idle"]),
        (["-l", "team=ml", "--pool", "gpu"], []),
    ],
)
@pytest.mark.parametrize("command", [["get", "events"], ["events"]], ids=" ".join)
def test_events_are_chosen_by_what_they_are_about(
    world: DisruptWorld, command: list[str], selectors: list[str], told: list[str]
) -> None:
    world.submit("small", gpus=9, labels={"stage": "test"})
    world.add_reservation("cr-1", total_count=1, tags={"team": "ml"})
    stack = Stack(world)
    details = {
        **LATELY,
        "Workload Pending": {**LATELY["Workload Pending"], "workload": SMALL},
    }
    events = [
        PastEvent(f"e-{n}", world.clock.now(), kind, detail)
        for n, (kind, detail) in enumerate(details.items())
    ]
    stack.history.keep(events)
    result = CliRunner().invoke(app, [*command, *selectors, "-o", "json"], obj=stack)
    assert result.exit_code == 0, result.output
    assert {item["type"] for item in json.loads(result.stdout)["items"]} == set(told)


def test_labels_find_what_happened_to_objects_that_are_gone(world: DisruptWorld) -> None:
    """A node and its decision, and a workload that was withdrawn, answer to the labels that they had."""
    (gone,) = (claim for claim in world.live() if claim.offering.reservation_id is not None)
    end_of_everything(world)
    stack = Stack(world)
    ended = {"node": {"nodeClaim": gone.id, "nodePool": "gpu"}, "reason": "Withdrawn"}
    placed = {
        "workload": {"namespace": "research", "name": "train"},
        "replicas": 2,
        "nodes": [],
    }
    now = world.clock.now()
    stack.history.keep(
        [
            PastEvent("e-1", now, "Node Terminated", ended),
            PastEvent("e-2", now, "Workload Placed", placed),
        ]
    )

    def named(*words: str) -> list[str]:
        return (
            CliRunner()
            .invoke(app, ["get", *words, "-o", "name"], obj=stack)
            .stdout.splitlines()
        )

    assert names(world, "nodes") == []
    assert named("events", "-l", "karpenter.sh/capacity-type=reserved") == ["event/e-1"]
    assert named("events", "-l", "stage=prod") == ["event/e-2"]
    assert named("decisions", "-l", "karpenter.sh/capacity-type=reserved") == [
        f"decision/{gone.plan_id}"
    ]
    assert named("decisions", "-l", "karpenter.sh/capacity-type=on-demand") == []


def end_of_everything(world: DisruptWorld) -> None:
    """Withdraw what runs; its nodes end, and go from the lists."""
    for name in ("train", "huge"):
        record = world.state.workloads.get(f"research/{name}")
        assert record is not None
        world.state.workloads.put(
            replace(record, withdrawn=True), expected_revision=record.revision
        )
    for _ in range(90):
        if not world.live():
            return
        world.minutes(1)
        world.release()
    raise AssertionError("the nodes stay")


def test_a_state_that_no_event_brings_is_refused(world: DisruptWorld) -> None:
    result = run(world, "get", "events", "--state", "drainig")
    assert (result.exit_code, result.stderr) == (
        2,
        "events are never 'drainig'; did you mean draining?\n",
    )


def test_a_workload_of_another_namespace_is_named(world: DisruptWorld) -> None:
    result = run(world, "get", "workload", "train")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr
        == "workload/train does not exist in the namespace default; did you mean research/train?\n"
    )


def test_selectors_choose_among_rows(world: DisruptWorld) -> None:
    assert names(world, "workloads", "-A", "-l", "stage=prod") == [
        "workload/research/train"
    ]
    assert names(world, "workloads", "-A", "-l", "stage!=prod") == [
        "workload/research/huge"
    ]
    assert names(world, "workloads", "-A", "--state", "WAITING") == [
        "workload/research/huge"
    ]
    assert names(world, "workloads", "-A", "--pool", "gpu") == ["workload/research/train"]
    assert (
        len(names(world, "nodes", "-l", "karpenter.sh/capacity-type in (reserved, spot)"))
        == 1
    )
    assert names(world, "nodes", "--pool", "other") == []


def test_several_names_and_what_is_missing(world: DisruptWorld) -> None:
    result = run(
        world, "get", "workloads", "research/train", "research/hugge", "-o", "name"
    )
    assert (result.exit_code, result.stdout) == (2, "workload/research/train\n")
    assert (
        result.stderr
        == "workload/research/hugge does not exist; did you mean research/huge?\n"
    )


def test_a_name_that_a_selector_leaves_out_is_not_missing(world: DisruptWorld) -> None:
    result = run(world, "get", "workload", "train", "-n", "research", "--state", "waiting")
    assert (result.exit_code, result.stdout) == (0, "")


def test_what_get_names_get_takes(world: DisruptWorld) -> None:
    all_names = names(world, "workloads,nodes,reservations,pools,classes", "-A")
    assert names(world, *all_names) == all_names


def test_several_nouns_are_a_table_each_and_one_list(world: DisruptWorld) -> None:
    assert run(world, "get", "nodes,reservations").stdout.count("NAME ") == 2
    assert {item["kind"] for item in items(world, "nodes,reservations")} == {
        "NodeClaim",
        "CapacityReservation",
    }


def test_yaml_is_what_json_is(world: DisruptWorld) -> None:
    printed = run(world, "get", "workloads", "-A", "-o", "yaml").stdout
    assert list(yaml.safe_load_all(printed)) == items(world, "workloads", "-A")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["workloads"],
            "no workloads in the namespace default; -A looks in all namespaces",
        ),
        (["workloads", "-A", "-l", "x=y"], "no workloads match"),
        (["nodes", "--state", "draining"], "no nodes match"),
    ],
)
def test_nothing_is_a_sentence(
    world: DisruptWorld, arguments: list[str], sentence: str
) -> None:
    result = run(world, "get", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", sentence + "\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["wrkloads"], "'wrkloads' is not a kind of object; did you mean workloads?"),
        (["nodes", "--state", "runing"], "nodes are never 'runing'; did you mean running?"),
        (["nodes", "-n", "x"], "nodes cannot be chosen by --namespace"),
        (["classes", "--pool", "x"], "classes cannot be chosen by --pool"),
        (["reservations", "--pool", "gpus"], "nodepool/gpus does not exist"),
        (
            ["workloads", "-n", "x", "-A"],
            "--namespace and --all-namespaces contradict each other",
        ),
        (
            ["nodes", "-l", "a=b=c"],
            "'a=b=c' is not a label selector: use key=value, key!=value, key in (a,b), key notin",
        ),
        (["nodes/nc-1", "nc-2"], "'nc-2' is not NOUN/NAME"),
        (["blocks"], 'ask for blocks as "4 p5.48xlarge for 2d"'),
        (
            ["blocks", "4 p5.48xlarge for ever"],
            "'4 p5.48xlarge for ever' is not on sale: ask for blocks as",
        ),
        (["blocks", "2 m5.large"], "EC2 has no block on sale now: 2 m5.large for 1d"),
    ],
)
def test_what_is_not_understood_is_refused(
    world: DisruptWorld, arguments: list[str], sentence: str
) -> None:
    result = run(world, "get", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(sentence)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("a=1", ["x"]),
        ("a==1,b", ["x"]),
        ("a!=1", ["y", "z"]),
        ("a in (1, 2)", ["x", "y"]),
        ("a notin (1,2),!b", ["z"]),
        ("!b", ["y", "z"]),
        ("", ["x", "y", "z"]),
    ],
)
def test_label_selectors_are_kubectls(text: str, chosen: list[str]) -> None:
    labels = {"x": {"a": "1", "b": ""}, "y": {"a": "2"}, "z": {}}
    assert [
        name for name, found in labels.items() if label_selector(text).matches(found)
    ] == chosen


@pytest.mark.parametrize(
    "noun",
    [
        "workloads",
        "nodes",
        "reservations",
        "calendar",
        "offerings",
        "blocks",
        "purchases",
        "pools",
        "classes",
    ],
)
def test_tables_fit_a_terminal_of_80_columns(world: DisruptWorld, noun: str) -> None:
    found = noun_of(noun)
    rows = found.read(Stack(world), Selection(ASKED.get(noun, ()), namespace=found.home))
    lines = as_table(rows, found.listing(world.clock.now()), 80, is_wide=False)
    assert max(len(line.plain) for line in lines) <= 80


def test_every_noun_has_what_its_selectors_look_at(world: DisruptWorld) -> None:
    for registered in NOUNS:
        noun = noun_of(registered.plural)
        assert noun.plural == registered.plural
        assert noun.kind in (registered.plural, *registered.aliases)
        for row in noun.read(Stack(world), Selection(names=ASKED.get(noun.plural, ()))):
            facts = noun.facts(row)
            assert facts.names
            assert (facts.namespaces is not None) == (Selector.NAMESPACE in noun.selectors)
            # whose labels are those of what they are about
            labels_are_read = noun.plural != "events"
            assert (facts.labels is not None) == (
                Selector.LABEL in noun.selectors and labels_are_read
            )
            states = [each.state for each in facts.through or (facts,)]
            assert (
                any(states) == (Selector.STATE in noun.selectors)
                or noun.plural == "decisions"
            )


def test_times_and_prices_for_columns() -> None:
    assert [
        span(timedelta(seconds=s)) for s in (0, 59, 90, 3600, 9_000, 90_000, 900_000)
    ] == [
        "0s",
        "59s",
        "1m30s",
        "1h",
        "2h30m",
        "1d1h",
        "10d",
    ]
    assert (age(None, START), age(START, START + HOUR)) == ("-", "1h")
    assert (ahead(None, START), ahead(START, START), ahead(START + HOUR, START)) == (
        "-",
        "now",
        "in 1h",
    )
    assert [price(micro) for micro in (None, 0, 1_500_000, 32_773_333, 49)] == [
        "?",
        "0.00",
        "1.50",
        "32.7733",
        "0.00",
    ]


def watched(stack: Stack, *arguments: str) -> list[str]:
    result = CliRunner().invoke(
        app, ["get", *arguments, "-w"], obj=stack, env={"NO_COLOR": "1"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_watching_prints_what_changes_and_what_is_gone(world: DisruptWorld) -> None:
    first = world.live()[0]
    draining = replace(first, state=ClaimState.DRAINING)
    ended = replace(first, state=ClaimState.TERMINATED)
    rows = world.state.claim_rows
    stack = Stack(world)
    stack.happens = [
        lambda: None,
        lambda: rows.__setitem__(first.id, draining),
        lambda: None,
        lambda: rows.__setitem__(first.id, ended),
    ]
    lines = watched(stack, "nodes")
    assert [line.split()[:2] for line in lines] == [
        ["NAME", "STATE"],
        *(
            [claim.id, "running"]
            for claim in sorted([*world.live(), first], key=lambda claim: claim.id)
        ),
        [first.id, "draining"],
        [f"node/{first.id}", "is"],
    ]
    assert stack.pauses_s == [2.0, 3.0, 2.0, 3.0, 2.0]


def test_a_program_that_watches_gets_an_object_a_line(world: DisruptWorld) -> None:
    first = world.live()[0]
    stack = Stack(world, happens=[lambda: world.state.claim_rows.pop(first.id)])
    told = [json.loads(line) for line in watched(stack, "nodes", "-o", "json")]
    assert [each["kind"] for each in told] == ["NodeClaim", "NodeClaim", "Gone"]
    assert told[-1]["metadata"]["name"] == f"node/{first.id}"


def test_one_noun_is_watched_at_a_time(world: DisruptWorld) -> None:
    result = run(world, "get", "nodes,pools", "-w")
    assert (result.exit_code, result.stderr) == (2, "watch one noun at a time\n")


def test_describe_tells_why_what_and_what_happened(world: DisruptWorld) -> None:
    stack = Stack(world)
    event = PastEvent(
        "e-1",
        world.clock.now(),
        "Workload Placed",
        {"workload": {"namespace": "research", "name": "train"}},
    )
    stack.history.keep([event])
    result = CliRunner().invoke(
        app, ["describe", "workload", "research/train"], obj=stack, env={"NO_COLOR": "1"}
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "workload/research/train"
    assert "2 wanted, 2 placed, 0 waiting" in lines[1]
    assert "kind: Workload" in lines
    assert lines[-2].split() == ["TIME", "EVENT", "OBJECT", "WHAT"]
    assert "Workload Placed" in lines[-1]


def test_describe_takes_selectors_and_says_what_is_missing(world: DisruptWorld) -> None:
    result = run(world, "describe", "nodes", "-l", "karpenter.sh/capacity-type=reserved")
    assert result.stdout.count("kind: NodeClaim") == 1
    assert "exists" in result.stdout
    missing = run(world, "describe", "node", "nc-9")
    assert (missing.exit_code, missing.stdout, missing.stderr) == (
        2,
        "",
        "node/nc-9 does not exist\n",
    )
    nothing = run(world, "describe", "nodes", "--state", "draining")
    assert (nothing.exit_code, nothing.stderr) == (0, "no such nodes\n")


def test_describe_says_which_units_are_lent(world: DisruptWorld) -> None:
    source = world.ec2.reservations["cr-1"]
    world.ec2.put(replace(source, lent=LentUnits("cr-2", 2, 1)))
    world.observe("cr-1")
    lines = run(world, "describe", "reservation", "cr-1").stdout.splitlines()
    assert lines[:2] == [
        "reservation/cr-1",
        "units: 1 in all, 2 more lent as cr-2, 1 being taken back",
    ]


@pytest.mark.parametrize("noun", [each.plural for each in NOUNS])
def test_every_noun_can_be_described(world: DisruptWorld, noun: str) -> None:
    everywhere = ["-A"] if noun == "workloads" else []
    result = run(world, "describe", noun, *ASKED.get(noun, ()), *everywhere)
    assert result.exit_code == 0, result.output
    assert result.exception is None


def test_events_of_the_last_hour_are_a_noun_too(world: DisruptWorld) -> None:
    stack = Stack(world)
    now = world.clock.now()
    stack.history.keep(
        [
            PastEvent(f"e-{hours}", now - hours * HOUR, "Endings Held", {"kind": "empty"})
            for hours in (0, 2)
        ]
    )
    result = CliRunner().invoke(app, ["get", "events", "-o", "name"], obj=stack)
    assert (result.exit_code, result.stdout) == (0, "event/e-0\n")


def test_blocks_on_sale_with_their_price_and_what_they_would_change(
    world: DisruptWorld,
) -> None:
    assert table(world, "blocks", "4 p5.48xlarge for 2d", "p5.48xlarge") == [
        [
            "cb-4-48",
            "p5.48xlarge",
            "us-east-1b",
            "4",
            "in",
            "5h",
            "2d",
            "5760.00",
            "USD",
            "30.00",
        ],
        [
            "cb-1-24",
            "p5.48xlarge",
            "us-east-1b",
            "1",
            "in",
            "5h",
            "1d",
            "720.00",
            "USD",
            "30.00",
        ],
    ]
    (row,) = items(world, "blocks", "4 p5.48xlarge for 2d")
    assert (row["kind"], row["metadata"]["name"]) == ("CapacityBlockOffering", "cb-4-48")
    assert (row["spec"]["upfrontFee"], row["spec"]["currency"]) == ("5760.0000", "USD")
    told = run(world, "describe", "block", "4 p5.48xlarge for 2d").stdout.splitlines()
    added = re.search(r'reservoir plan -f DEMAND --with "(.*)"', told[1])
    assert added is not None
    capacity = parse_added_capacity(added[1], world.clock.now())
    this_minute = world.clock.now().replace(second=0)  # the command names whole minutes
    assert (capacity.count, capacity.start_at) == (4, this_minute + 5 * HOUR)
    assert told[2].endswith(
        'reservoir blocks buy "4 p5.48xlarge for 2d" --offering cb-4-48 --tag KEY=VALUE'
    )


def test_the_calendar_shows_what_ends_when_and_what_goes_on(world: DisruptWorld) -> None:
    now, day, tags = world.clock.now(), timedelta(days=1), {"team": "training"}
    block = {"kind": ReservationKind.CAPACITY_BLOCK, "total_count": 2, "tags": tags}
    world.add_reservation("cr-first", **block, start_at=now - day, end_at=now + 2 * day)
    world.add_reservation("cr-next", **block, start_at=now + 4 * day, end_at=now + 6 * day)
    rows = {row[0]: row for row in table(world, "calendar")}
    assert list(rows) == ["cr-first", "cr-next", "cr-1"]
    assert rows["cr-first"][-1] == "##" + "." * 26
    assert rows["cr-next"][-1] == "....##" + "." * 22
    assert rows["cr-1"][-1] == "#" * 28
    assert " ".join(rows["cr-first"]).split("gap of ")[1].startswith("2d ")
    assert "nothing" in rows["cr-next"]
    first = items(world, "calendar", "cr-first")[0]
    assert (
        first["status"]["successor"],
        first["status"]["gapS"],
        first["spec"]["units"],
    ) == ("cr-next", 172_800, 2)
    assert items(world, "calendar", "cr-1")[0]["status"]["nodes"] == 1
