import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.fakes.principals import MemoryPrincipals
from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.capacity_blocks import MemoryBootFailures
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.stores.state import (
    MemoryDecisions,
    MemoryNodeClaims,
    MemoryOfferings,
    MemoryReservations,
    MemoryState,
    MemoryWorkloads,
)
from lab.fakes.system import START, InTurn, ManualClock
from lab.fakes.values import ZONE, ZONE_ID, node_claim, reservation
from lab.worlds.planning_world import node_class_manifest
from lab.worlds.policies import Bus, node_class, pool
from reservoir.cli.app import app
from reservoir.core.capacity.ledger import Balance
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.conditions import node_class_conditions
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.node_class import NodeClassStatus
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.manifests.answers.policy_request import PolicyRequest, RemovedObject
from reservoir.manifests.events import PolicyChanged
from reservoir.manifests.kinds.launch_limits import LaunchLimits
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.parsing.load import load_documents
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.policy import PolicyKind, PolicyStatus
from reservoir.ports.state import ConflictError, ReservationRecord
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from tests.cli.world_stack import CHANGES_POLICY, OwnOutside, invoke
from tests.core.scheduler.world import fx_type

EXAMPLES = Path(__file__).parents[3] / "examples"
POLICY = str(EXAMPLES / "policy")


def memory_state() -> MemoryState:
    return MemoryState(ManualClock())


@dataclass
class Stack(OwnOutside):
    """A stack in memory; implements ``reservoir.cli.stack.connection.Connection``."""

    policy: MemoryPolicyStore = field(default_factory=MemoryPolicyStore)
    state: MemoryState = field(default_factory=memory_state)
    publisher: Bus = field(default_factory=Bus)
    launch_limits: LaunchLimits = field(default_factory=LaunchLimits)
    principals: MemoryPrincipals = field(default_factory=MemoryPrincipals)
    accounts: MemoryAccounts = field(default_factory=MemoryAccounts)

    @property
    def reservations(self) -> MemoryReservations:
        return self.state.reservations

    @property
    def node_claims(self) -> MemoryNodeClaims:
        return self.state.node_claims

    @property
    def workloads(self) -> MemoryWorkloads:
        return self.state.workloads

    @property
    def decisions(self) -> MemoryDecisions:
        return self.state.decisions

    @property
    def queue(self) -> Bus:
        return self.publisher

    @property
    def offerings(self) -> MemoryOfferings:
        return self.state.offerings

    @property
    def snapshots(self) -> SnapshotGatherer:
        state = self.state
        boots = MemoryBootFailures(self.clock)
        return SnapshotGatherer(
            state.offerings,
            state.reservations,
            state.node_claims,
            state.workloads,
            self.policy,
            boots,
            InTurn(),
        )

    @property
    def clock(self) -> ManualClock:
        return ManualClock()

    def caller(self) -> str:
        return "arn:aws:iam::111122223333:user/bob"


@pytest.fixture
def stack() -> Stack:
    return Stack()


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reservoir.cli.console.can_ask", lambda: True)


def names(stack: Stack) -> Sequence[str]:
    return [f"{row.kind}/{row.name}" for row in stack.policy.list_all()]


def test_apply_a_folder(stack: Stack) -> None:
    result = invoke(stack, "apply", "-f", POLICY)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "ec2nodeclass/default created",
        "ec2nodeclass/gpu-training created",
        "nodepool/default created",
        "nodepool/gpu-training created",
    ]
    assert (len(stack.publisher.events), stack.publisher.wake_count) == (1, 1)
    assert "nodepool/default unchanged" in invoke(stack, "apply", "-f", POLICY).stdout


def test_apply_standard_input(stack: Stack) -> None:
    assert invoke(stack, "apply", "-f", "-", given=node_class()).exit_code == 0
    assert names(stack) == ["EC2NodeClass/c"]


def test_a_dry_run_writes_nothing(stack: Stack) -> None:
    result = invoke(stack, "apply", "--dry-run", "-f", POLICY)
    assert "nodepool/default created (dry run)" in result.stdout
    assert names(stack) == []


def test_nothing_is_not_valid(stack: Stack) -> None:
    result = invoke(stack, "validate", "-f", "-", given="# nothing\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the input holds no manifest" in result.stderr
    assert invoke(stack, "apply", "-f", "-", given="").exit_code == 2


def test_values_that_the_account_does_not_have_are_doubted(stack: Stack) -> None:
    stack.state.offerings.save_catalogue([fx_type("small")])
    mistyped = pool(
        requirement="{key: node.kubernetes.io/instance-type, operator: In, values: [smal]}"
    )
    told = invoke(stack, "apply", "-f", "-", given=node_class() + "---" + mistyped)
    assert told.exit_code == 0, told.output
    assert (
        "node.kubernetes.io/instance-type 'smal' is not offered in this account and region (did you mean small?)"
        " [unknown-value]"
    ) in told.stderr
    offline = mistyped.replace("[smal]", "[p5.48xlagre]")
    assert (
        "(did you mean p5.48xlarge?) [unknown-value]"
        in invoke(stack, "validate", "-f", "-", given=offline).stderr
    )


def test_a_dry_run_says_which_nodes_would_drift(stack: Stack) -> None:
    invoke(stack, "apply", "-f", "-", given=node_class() + "---" + pool())
    (stored,) = (
        NodePoolManifest.model_validate(row.manifest)
        for row in stack.policy.list_all()
        if row.name == "p"
    )
    claim = node_claim(
        "nc-1",
        node_pool_name="p",
        node_class_name="c",
        node_pool_hash=stored.static_hash(),
        node_class_hash=policy_of(stack.policy.list_all()).node_classes[0].static_hash,
        state=ClaimState.RUNNING,
        placements=(),
        labels={labels.NODE_POOL: "p", labels.NODE_CLASS: "c"},
    )
    stack.state.claim_rows["nc-1"] = claim
    bought = OfferingKey("m5.large", ZONE, ZONE_ID, CapacityType.ON_DEMAND)
    price = 96_000 * ATTO_USD_PER_MICRO_USD
    stack.state.claim_rows["nc-2"] = replace(
        claim, id="nc-2", offering=bought, price_atto_usd_per_hour=price, lease=None
    )
    tainted = pool().replace(
        "requirements:", "taints: [{key: a, effect: NoSchedule}], requirements:"
    )
    told = invoke(stack, "apply", "--dry-run", "-f", "-", given=tainted)
    assert told.exit_code == 0, told.output
    assert [line for line in told.stderr.splitlines() if line.startswith("impact: ")] == [
        "impact: 2 nodes would drift and be replaced: 1 reserved, 1 bought for 0.096 USD an hour",
        "impact: 2 nodes: NodePool p changed",
    ]
    as_data = invoke(stack, "apply", "--dry-run", "-o", "json", "-f", "-", given=tainted)
    assert as_data.stderr == ""
    document = json.loads(as_data.stdout)
    assert (document["kind"], document["dryRun"]) == ("Apply", True)
    assert document["changes"] == [{"kind": "NodePool", "name": "p", "change": "updated"}]
    drift = {"reason": "NodePool p changed"}
    assert document["impact"] == {
        "driftingNodes": [
            {"nodeClaim": "nc-1", **drift, "reserved": True, "priceMicroUsdPerHour": 0},
            {
                "nodeClaim": "nc-2",
                **drift,
                "reserved": False,
                "priceMicroUsdPerHour": 96_000,
            },
        ],
        "driftingMicroUsdPerHour": 96_000,
        "neverLaunching": [],
        "assumptions": [],
    }
    other = pool().replace("weight: 7", "weight: 8")
    assert (
        "impact: no node would drift"
        in invoke(stack, "diff", "-f", "-", given=other).stderr
    )
    assert "impact" not in invoke(stack, "diff", "-f", "-", given=pool()).stderr


def test_apply_says_everything_that_is_wrong_and_writes_nothing(stack: Stack) -> None:
    given = (
        node_class()
        + "---"
        + pool().replace("weight: 7", "wieght: 7").replace("name: p", "name: P")
    )
    result = invoke(stack, "apply", "-f", "-", given=given)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "stdin:12: error: NodePool/P metadata.name: must be lower-case letters, digits, '-' and '.', and begin and end "
        "with a letter or digit (did you mean p?) [name]",
        "stdin:14: error: NodePool/P spec.wieght: is not a known field (did you mean weight?) [unknown-field]",
        "nothing was written",
    ]
    assert names(stack) == []


def test_apply_warns_on_the_error_stream(stack: Stack) -> None:
    result = invoke(stack, "apply", "-f", "-", given=pool())
    assert result.exit_code == 0
    assert "stdin:7: warning: NodePool/p" in result.stderr
    assert "can never launch because there is no EC2NodeClass c" in result.stderr
    assert result.stdout == "nodepool/p created\n"


def test_a_lost_race_is_told(stack: Stack) -> None:
    def overtake() -> None:
        raise ConflictError(["NodePool/p"])

    stack.policy.before_commit = overtake
    result = invoke(stack, "apply", "-f", "-", given=pool())
    assert result.exit_code == 2
    assert "somebody else was faster" in result.stderr


def test_diff_shows_changes_and_ends_with_one(stack: Stack) -> None:
    invoke(stack, "apply", "-f", "-", given=node_class() + "---" + pool())
    result = invoke(
        stack, "diff", "-f", "-", given=pool().replace("weight: 7", "weight: 8")
    )
    assert result.exit_code == 1
    changed = [line for line in result.stdout.splitlines() if line.startswith(("+ ", "- "))]
    assert changed == ["-  weight: 7", "+  weight: 8"]
    same = invoke(stack, "diff", "-f", "-", given=pool())
    assert (same.exit_code, same.stdout) == (0, "")


def test_a_default_that_is_spelt_out_is_no_difference(stack: Stack) -> None:
    spelt = pool().replace(
        "  weight: 7", "  weight: 7\n  disruption: {consolidateAfter: 0s}"
    )
    invoke(stack, "apply", "-f", "-", given=node_class() + "---" + pool())
    same = invoke(stack, "diff", "-f", "-", given=spelt)
    assert (same.exit_code, same.stdout) == (0, "")
    assert "nodepool/p unchanged" in invoke(stack, "apply", "-f", "-", given=spelt).stdout
    changed = invoke(
        stack, "diff", "-f", "-", given=spelt.replace("weight: 7", "weight: 8")
    )
    lines = [line for line in changed.stdout.splitlines() if line.startswith(("+ ", "- "))]
    assert (changed.exit_code, lines) == (1, ["-  weight: 7", "+  weight: 8"])


@pytest.mark.parametrize("words", [["nodepool", "p", "q"], ["NodePool/p", "nodepools/q"]])
def test_delete_by_name(stack: Stack, words: list[str]) -> None:
    invoke(
        stack, "apply", "-f", "-", given="---".join([node_class(), pool("p"), pool("q")])
    )
    result = invoke(stack, "delete", *words)
    assert result.stdout.splitlines() == ["nodepool/p deleted", "nodepool/q deleted"]
    assert names(stack) == ["EC2NodeClass/c"]


def with_nodes(stack: Stack, count: int = 2) -> Stack:
    """Apply two pools, a class and a team, and let the pool p have nodes."""
    team = "{apiVersion: reservoir/v1, kind: Team, metadata: {name: t}, spec: {namespaces: [research]}}"
    applied = invoke(
        stack,
        "apply",
        "-f",
        "-",
        given="\n---\n".join([node_class(), pool("p"), pool("q"), team]),
    )
    assert applied.exit_code == 0, applied.output
    for number in range(count):
        name, placed = f"nc-{number}", (PlacedReplicas("research/train", 1),)
        stack.state.claim_rows[name] = node_claim(
            name,
            node_pool_name="p",
            node_class_name="c",
            placements=placed,
            state=ClaimState.RUNNING,
        )
    return stack


def test_delete_says_what_becomes_of_nodes(stack: Stack) -> None:
    said = invoke(with_nodes(stack), "delete", "--dry-run", "nodepool", "p", "q").stderr
    assert said.splitlines() == [
        "nodepool/p has 2 nodes. They drain, 10% at a time and no more in an hour than the safety envelope allows;"
        " other pools replace them where they can"
    ]


WITH_NODES = ["nodepool/p", "ec2nodeclass/c", "team/t"]


@pytest.mark.parametrize("name", WITH_NODES)
def test_what_has_nodes_is_not_deleted_where_nobody_can_be_asked(
    stack: Stack, name: str
) -> None:
    before = names(with_nodes(stack))
    result = invoke(stack, "delete", name, given="y\n")
    assert (result.exit_code, result.stdout, names(stack)) == (2, "", before)
    assert f"{name} has " in result.stderr
    assert (
        f"nothing was done: there is no terminal on which to ask, and no --yes. Delete {name}?"
        in result.stderr
    )


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("name", WITH_NODES)
def test_what_has_nodes_is_deleted_when_somebody_agrees(stack: Stack, name: str) -> None:
    before = names(with_nodes(stack))
    assert invoke(stack, "delete", name, given="n\n").exit_code == 2
    assert names(stack) == before
    agreed = invoke(stack, "delete", name, given="y\n")
    assert (agreed.exit_code, agreed.stdout.splitlines()[-1:]) == (0, [f"{name} deleted"])


def test_what_has_no_nodes_is_deleted_without_a_question(stack: Stack) -> None:
    result = invoke(with_nodes(stack), "delete", "pool/q")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "nodepool/q deleted\n",
        "",
    )
    assert invoke(with_nodes(stack, count=0), "delete", "class", "c").exit_code == 2, (
        "the nodes of before are there"
    )


def test_files_are_asked_about_as_a_whole(stack: Stack, tmp_path: Path) -> None:
    before = names(with_nodes(stack))
    (file := tmp_path / "policy.yaml").write_text(
        "\n---\n".join([node_class(), pool("p"), pool("q")])
    )
    assert invoke(stack, "delete", "-f", str(file)).exit_code == 2
    assert names(stack) == before
    assert invoke(stack, "delete", "-f", str(file), "--yes").exit_code == 0
    assert names(stack) == ["Team/t"]


def test_delete_what_files_name(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    assert invoke(stack, "delete", "--dry-run", "-f", POLICY).exit_code == 0
    assert len(names(stack)) == 4
    assert invoke(stack, "delete", "-f", POLICY).exit_code == 0
    assert names(stack) == []


def test_delete_what_does_not_exist_says_so(stack: Stack) -> None:
    result = invoke(stack, "delete", "nodepool/p")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        "nodepool/p does not exist\n",
    )


def test_a_misspelt_name_is_answered_with_the_nearest(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    found = invoke(stack, "get", "nodepool", "gpu-trainin", "-o", "yaml")
    assert (found.exit_code, found.stderr) == (
        2,
        "nodepool/gpu-trainin does not exist; did you mean gpu-training?\n",
    )
    gone = invoke(stack, "delete", "nodepool/gpu-trainin", "nodeclass/nothing-like-it")
    assert gone.stderr.splitlines() == [
        "nodepool/gpu-trainin does not exist; did you mean gpu-training?",
        "ec2nodeclass/nothing-like-it does not exist",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delete"], "name objects, or files with -f"),
        (["delete", "nodepool/p", "-f", "x"], "name objects, or files with -f"),
        (
            ["delete", "nodepool"],
            "say what to delete: KIND NAME... or KIND/NAME..., where KIND is nodepool, ec2nodeclass, team or node",
        ),
        (
            ["delete", "nodepoll/p"],
            "'nodepoll' is not a kind of object; did you mean nodepool?",
        ),
        (
            ["apply", "-f", "/no/such/file"],
            "cannot read /no/such/file: No such file or directory",
        ),
        (["get", "nodepool", "absent"], "nodepool/absent does not exist"),
    ],
)
def test_wrong_arguments_end_with_a_sentence(
    stack: Stack, arguments: list[str], message: str
) -> None:
    result = invoke(stack, *arguments)
    assert (result.exit_code, result.stderr) == (2, message + "\n")


def test_an_empty_folder_is_no_success(stack: Stack, tmp_path: Path) -> None:
    result = invoke(stack, "apply", "-f", str(tmp_path))
    assert result.exit_code == 2
    assert "no manifests in" in result.stderr


def test_a_file_above_the_limit_is_refused_without_reading_it_all(
    stack: Stack, tmp_path: Path
) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (2**20 + 100))
    result = invoke(stack, "apply", "-f", str(large))
    assert "at most 1048576 are read" in result.stderr


def test_what_get_prints_can_be_applied_and_changes_nothing(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    for form in ("yaml", "json"):
        printed = invoke(stack, "get", "-o", form).stdout
        given = (
            printed
            if form == "yaml"
            else "\n---\n".join(json.dumps(each) for each in json.loads(printed)["items"])
        )
        result = invoke(stack, "apply", "-f", "-", given=given)
        assert {line.split()[1] for line in result.stdout.splitlines()} == {"unchanged"}
    assert stack.policy.commit_count == 1


def test_get_prints_fields_in_the_order_of_the_reference(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    printed = invoke(stack, "get", "nodepool", "gpu-training", "-o", "yaml").stdout
    fields = [
        line.strip()
        for line in printed.splitlines()
        if line.startswith("  ") and line.endswith(":")
    ]
    assert (
        fields.index("template:")
        < fields.index("requirements:")
        < fields.index("disruption:")
    )


def test_an_edit_of_something_that_moved_on_is_refused(stack: Stack) -> None:
    invoke(stack, "apply", "-f", "-", given=node_class() + "---" + pool())
    printed = invoke(stack, "get", "nodepool", "p", "-o", "yaml").stdout
    invoke(stack, "apply", "-f", "-", given=pool().replace("weight: 7", "weight: 8"))
    result = invoke(
        stack, "apply", "-f", "-", given=printed.replace("weight: 7", "weight: 9")
    )
    assert result.exit_code == 2
    assert "resourceVersion 1 was read, and now it is at 2" in result.stderr


def give_status(stack: Stack) -> None:
    """Let discovery have found one full reservation for the class gpu-training."""
    block = {"kind": ReservationKind.CAPACITY_BLOCK, "end_at": START.replace(year=2027)}
    full = reservation(
        "cr-1",
        4,
        0,
        owner_id="123456789012",
        zone="us-west-2a",
        zone_id="usw2-az1",
        **block,
    )
    record = ReservationRecord(full, Balance(0, 0), START)
    stack.state.reservation_rows["cr-1"] = record
    (gpu,) = [
        each
        for each in policy_of(stack.policy.list_all()).node_classes
        if each.name == "gpu-training"
    ]
    found = NodeClassStatus(reservation_ids=("cr-1", "cr-gone"))
    conditions = node_class_conditions(
        gpu, [full], discovery_errors={}, previous=(), now=START
    )
    stack.policy.save_status(
        PolicyKind.NODE_CLASS, "gpu-training", PolicyStatus(conditions, found)
    )


def test_get_shows_the_reservations_that_were_found(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    give_status(stack)
    (document,) = load_documents(
        invoke(stack, "get", "nodeclass", "gpu-training", "-o", "yaml").stdout
    )
    assert document.value["status"]["capacityReservations"] == [
        {
            "id": "cr-1",
            "availabilityZone": "us-west-2a",
            "zoneID": "usw2-az1",
            "instanceType": "p5.48xlarge",
            "instanceMatchCriteria": "targeted",
            "ownerID": "123456789012",
            "reservationType": "capacity-block",
            "interruptible": False,
            "state": "active",
            "endTime": "2027-01-15T12:00:00Z",
            "totalInstanceCount": 4,
            "availableInstanceCount": 0,
            "freeUnits": 0,
        }
    ]
    statuses = {
        each["type"]: each["status"] for each in document.value["status"]["conditions"]
    }
    assert statuses["CapacityReservation"] == "LimitExceeded"
    assert statuses["SubnetsReady"] == "False"


def test_get_shows_what_a_pool_has_and_can_be_applied_with_it(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    for claim_id in ("nc-1", "nc-2"):
        claim = node_claim(
            claim_id, node_pool_name="gpu-training", state=ClaimState.RUNNING
        )
        stack.state.claim_rows[claim_id] = claim
    printed = invoke(stack, "get", "nodepool", "gpu-training", "-o", "yaml").stdout
    (document,) = load_documents(printed)
    status = document.value["status"]
    assert (status["nodes"], status["nodesByCapacityType"]) == (2, {"reserved": 2})
    assert status["resources"]["cpu"] == "380"
    assert "unchanged" in invoke(stack, "apply", "-f", "-", given=printed).stdout
    rows = [line.split() for line in invoke(stack, "get", "nodepool").stdout.splitlines()]
    assert ["gpu-training", "Unknown", "gpu-training", "50", "2", "2", "0", "0"] in rows


@pytest.mark.parametrize("kind", ["nodepool", "nodeclass"])
def test_get_says_of_what_was_not_looked_at_yet_that_nobody_knows(
    stack: Stack, kind: str
) -> None:
    invoke(stack, "apply", "-f", POLICY)
    printed = invoke(stack, "get", kind, "default", "-o", "yaml").stdout
    (document,) = load_documents(printed)
    (ready,) = document.value["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == (
        "Ready",
        "Unknown",
        "NotYetKnown",
    )
    assert "within a minute" in ready["message"]
    assert "unchanged" in invoke(stack, "apply", "-f", "-", given=printed).stdout
    assert invoke(stack, "get", kind, "default").stdout.splitlines()[1].split()[:2] == [
        "default",
        "Unknown",
    ]


def test_get_as_a_table(stack: Stack) -> None:
    invoke(stack, "apply", "-f", POLICY)
    give_status(stack)
    rows = [line.split() for line in invoke(stack, "get").stdout.splitlines()]
    assert ["default", "Unknown", "0", "0", "0", "-"] in rows
    assert ["gpu-training", "Unknown", "gpu-training", "50", "0", "0", "0", "0"] in rows
    (gpu,) = [row for row in rows if row[:2] == ["gpu-training", "False"]]
    assert gpu[-4:] == ["1", "4", "0", "LimitExceeded"]


def test_validate_needs_no_account() -> None:
    result = CliRunner().invoke(
        app, ["validate", "-f", POLICY, "-f", str(EXAMPLES / "workloads")]
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "6 valid\n", "")


def test_validate_checks_workloads_against_pools() -> None:
    workload = "{apiVersion: reservoir/v1, kind: Workload, metadata: {name: w}, spec: {nodeSelector: {team: blue}}}"
    result = CliRunner().invoke(
        app, ["validate", "-f", "-"], input="---\n".join([node_class(), pool(), workload])
    )
    assert result.exit_code == 0
    assert (
        "Workload/default/w spec: the workload can never launch because no NodePool can serve it"
        in result.stderr
    )


def test_names_are_never_read_as_markup(stack: Stack) -> None:
    result = invoke(
        stack,
        "apply",
        "-f",
        "-",
        given=node_class().replace("kind: EC2NodeClass", "kind: '[red]x[/red]'"),
    )
    assert "'[red]x[/red]' is not one of" in result.stderr


KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd"


@pytest.mark.parametrize(
    ("named", "known", "warned"),
    [
        (KEY, (KEY,), False),
        ("1234abcd", (KEY,), False),
        (KEY, (), True),
        ("alias/volumes", (KEY,), True),
        ("arn:aws:kms:us-east-1:123456789012:key/other", (KEY,), True),
    ],
)
def test_a_key_that_the_deployment_does_not_know_is_told(
    tmp_path: Path, named: str, known: tuple[str, ...], warned: bool
) -> None:
    stack = Stack(launch_limits=LaunchLimits(kms_keys=known))
    (file := tmp_path / "class.yaml").write_text(
        class_with({"blockDeviceMappings": encrypted_with(named)})
    )
    told = invoke(stack, "apply", "-f", str(file))
    assert told.exit_code == 0
    assert ("spec.blockDeviceMappings[0].ebs.kmsKeyID" in told.output) == warned
    assert (named in told.output) == warned


def test_a_class_that_wants_metadata_without_tokens_is_told_why_it_cannot_launch(
    tmp_path: Path,
) -> None:
    (file := tmp_path / "class.yaml").write_text(
        class_with({"metadataOptions": {"httpTokens": "optional"}})
    )
    strict = invoke(Stack(), "apply", "-f", str(file))
    assert (
        "can never launch because the deployment lets instances read their metadata by token only"
        in strict.output
    )
    lax = invoke(
        Stack(launch_limits=LaunchLimits(tokens_required=False)), "apply", "-f", str(file)
    )
    assert "metadata" not in lax.output


def encrypted_with(key: str) -> list[dict[str, Any]]:
    return [
        {
            "deviceName": "/dev/xvda",
            "ebs": {"volumeSize": "20Gi", "encrypted": True, "kmsKeyID": key},
        }
    ]


def class_with(spec: dict[str, Any]) -> str:
    return json.dumps(node_class_manifest(**spec))


ALL_STAGES = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: broken}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge, p5.48xlagre]}
  disruption: {consolidateAfter: 10, consolidationPolic: WhenEmpty}
---
apiVersion: reservoir/v1
kind: Workload
metadata: {name: refused}
spec: {replicas: many, nodeSelector: {topology.kubernetes.io/zone: us-east-1z}}
---
apiVersion: reservoir/v1
kind: Workload
metadata: {name: read}
spec: {nodeSelector: {topology.kubernetes.io/zone: us-east-1y}}
"""


def test_one_round_tells_what_is_wrong_with_the_form_the_values_and_what_ec2_does_not_have() -> (
    None
):
    result = CliRunner().invoke(app, ["validate", "-f", "-"], input=ALL_STAGES)
    assert result.exit_code == 2
    told = [
        line.removeprefix("stdin:").partition(": ")[::2]
        for line in result.stderr.splitlines()
    ]
    rules = {
        (int(line), text.rpartition("[")[2].rstrip("]")) for line, text in told if text
    }
    assert rules == {
        (11, "unknown-field"),
        (11, "duration"),
        (10, "unknown-value"),
        (16, "int-type"),
        (16, "unknown-value"),
        (21, "unknown-value"),
    }
    assert "p5.48xlagre' is not offered" in result.stderr
    assert "(did you mean p5.48xlarge?)" in result.stderr


def test_what_only_others_could_show_is_not_told_while_some_have_errors() -> None:
    """The pool's class is there, and has an error: that there is no such class would be false."""
    broken = node_class().replace("subnetSelectorTerms", "subnetSelectorTerm")
    told = (
        CliRunner()
        .invoke(app, ["validate", "-f", "-"], input=f"{pool()}\n---\n{broken}")
        .stderr
    )
    assert "unknown-field" in told
    assert "no-class" not in told


def test_what_no_object_with_errors_could_supply_is_told_beside_them() -> None:
    broken = pool().replace("weight: 7", "weight: many").replace("name: p", "name: broken")
    told = (
        CliRunner()
        .invoke(app, ["validate", "-f", "-"], input=f"{pool()}\n---\n{broken}")
        .stderr
    )
    assert "error: NodePool/broken spec.weight" in told
    assert (
        "NodePool/p spec.template.spec.nodeClassRef.name: the pool can never launch because there is no"
        in told
    )


def told_by(stack: Stack) -> list[str | None]:
    """Return who has changed policy, as the events say."""
    return [
        event.by for event in stack.publisher.events if isinstance(event, PolicyChanged)
    ]


def test_a_change_is_told_in_the_name_of_whom_aws_vouches_for(stack: Stack) -> None:
    assert invoke(stack, "apply", "-f", POLICY).exit_code == 0
    assert invoke(stack, "delete", "-f", POLICY, "--yes").exit_code == 0
    assert told_by(stack) == [CHANGES_POLICY.arn] * 2
    assert stack.policy.list_all() == ()


def test_policy_of_a_stack_of_the_release_before_is_changed_as_it_was(stack: Stack) -> None:
    stack.changes_policy = False
    assert invoke(stack, "apply", "-f", POLICY).exit_code == 0
    assert told_by(stack) == [stack.caller()]


def test_the_function_writes_nothing_over_what_moved_since_it_was_looked_at(
    stack: Stack,
) -> None:
    assert invoke(stack, "apply", "-f", POLICY).exit_code == 0
    stored = stack.policy.list_all()
    request = PolicyRequest(
        removed=[
            RemovedObject(kind=row.kind.value, name=row.name, revision=row.revision - 1)
            for row in stored
        ]
    )
    with pytest.raises(ConflictError):
        stack.change_policy(request)
    older = {**next(row.manifest for row in stored if row.kind is PolicyKind.NODE_POOL)}
    older["metadata"] = {**older["metadata"], "resourceVersion": "99"}
    older["spec"] = {**older["spec"], "weight": 99}
    with pytest.raises(ConflictError):
        stack.change_policy(PolicyRequest(manifests=[older]))
    assert stack.policy.list_all() == stored


def test_a_request_that_is_repeated_because_its_answer_was_lost_is_no_conflict(
    stack: Stack,
) -> None:
    sent: list[PolicyRequest] = []
    change_policy = stack.change_policy

    def change_twice(request: PolicyRequest) -> None:
        change_policy(request)
        sent.append(request)
        change_policy(request)

    stack.change_policy = change_twice  # type: ignore[method-assign]  # the network repeats it
    assert invoke(stack, "apply", "-f", POLICY).exit_code == 0
    done = invoke(stack, "delete", "-f", POLICY, "--yes")
    assert (done.exit_code, len(sent)) == (0, 2)
    assert stack.policy.list_all() == ()


def test_the_function_looks_at_what_it_is_sent(stack: Stack) -> None:
    with pytest.raises(ManifestError):
        stack.change_policy(PolicyRequest(manifests=[{"kind": "NodePool", "spec": {}}]))
    assert stack.policy.list_all() == ()
