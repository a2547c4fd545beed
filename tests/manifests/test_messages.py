import json
from pathlib import Path
from typing import Any

import pytest

from reservoir.manifests.messages import (
    ReleaseMessage,
    SubmitMessage,
    WithdrawMessage,
    parse_demand,
)
from reservoir.manifests.parsing.message import load_json
from reservoir.manifests.parsing.problems import ManifestError
from tests.manifests.kinds import valid

GOLDEN = Path(__file__).parent / "golden"
REFERENCE = {"metadata": {"namespace": "shop", "name": "web", "generation": 3}}


def refusal(body: Any) -> tuple[str, str]:
    with pytest.raises(ManifestError) as caught:
        parse_demand(body if isinstance(body, str | bytes) else json.dumps(body))
    return caught.value.problems[0].path, caught.value.problems[0].rule


@pytest.mark.parametrize(
    "path",
    sorted(GOLDEN.glob("v*/*.json")),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_message_that_was_ever_valid_stays_valid(path: Path) -> None:
    parse_demand(path.read_bytes())


def test_there_are_messages_of_each_version() -> None:
    assert {path.parent.name for path in GOLDEN.glob("v*/*.json")} == {"v1"}


@pytest.mark.parametrize("action", ["submit", "update"])
def test_submit_and_update(action: str) -> None:
    message = parse_demand(json.dumps({"action": action, "workload": valid.workload()}))
    assert isinstance(message, SubmitMessage)
    assert message.workload.to_core().key == "shop/web"


@pytest.mark.parametrize(
    "workload",
    [REFERENCE, valid.workload(), {**valid.workload(), "spec": {"anything": []}}],
)
def test_withdraw_reads_the_metadata_only(workload: Any) -> None:
    message = parse_demand(
        json.dumps({"schemaVersion": 1, "action": "withdraw", "workload": workload})
    )
    assert isinstance(message, WithdrawMessage)
    assert (message.workload.key, message.workload.metadata.generation) == ("shop/web", 3)


@pytest.mark.parametrize(("extra", "replicas"), [({}, None), ({"replicas": 2}, 2)])
def test_release(extra: dict[str, int], replicas: int | None) -> None:
    message = parse_demand(
        json.dumps(
            {"action": "release", "workload": REFERENCE, "nodeClaim": "nc-000001", **extra}
        ).encode()
    )
    assert isinstance(message, ReleaseMessage)
    assert (message.node_claim, message.replicas) == ("nc-000001", replicas)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", ("", "json")),
        ("{", ("", "json")),
        ("[]", ("", "message")),
        (b"\xff", ("", "json")),
        ("{}", ("action", "action")),
        ({"action": []}, ("action", "action")),
        ({"action": "sumbit"}, ("action", "action")),
        ({"action": "submit"}, ("workload", "missing")),
        ({"action": "submit", "schemaVersion": 2}, ("schemaVersion", "schema-version")),
        ({"action": "submit", "schemaVersion": True}, ("schemaVersion", "schema-version")),
        (
            {"action": "withdraw", "workload": {"metadata": {"name": "W"}}},
            ("workload.metadata.name", "name"),
        ),
        ({"action": "release", "workload": REFERENCE}, ("nodeClaim", "missing")),
        (
            {"action": "withdraw", "workload": REFERENCE, "force": True},
            ("force", "unknown-field"),
        ),
        ('{"action": "submit", "action": "withdraw"}', ("action", "duplicate")),
        ('{"action": NaN}', ("", "json")),
        ('{"action": ' + "9" * 30 + "}", ("", "integer")),
        ('{"action": 99999999999999999999}', ("action", "integer")),
        ('{"action": "\\ud800"}', ("action", "unicode")),
        ('{"\\udc00": 1}', ("", "unicode")),
        ("[" * 100_000, ("", "depth")),
        ('{"a":' * 40 + "1" + "}" * 40, ("a.a.a.a", "depth")),
        (json.dumps({"a": " " * 2**20}), ("", "size")),
        (json.dumps({"a": [0] * 20_001}), ("", "size")),
        (json.dumps({str(key): 0 for key in range(1_001)}), ("", "size")),
    ],
)
def test_what_is_not_a_message_is_refused_with_its_place(
    body: Any, problem: tuple[str, str]
) -> None:
    assert refusal(body) == problem


def test_a_misspelt_action_gets_a_hint() -> None:
    with pytest.raises(ManifestError) as caught:
        parse_demand('{"action": "sumbit"}')
    assert caught.value.problems[0].suggestion == "submit"


def test_refusals_carry_no_raw_text() -> None:
    evil = "\u202e\x1b[31m" + "x" * 5_000
    with pytest.raises(ManifestError) as caught:
        parse_demand(json.dumps({"action": evil}))
    text = str(caught.value)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 400


def test_numbers_of_64_bits_are_read() -> None:
    assert load_json("[9223372036854775807, -9223372036854775808]") == [2**63 - 1, -(2**63)]


def submitted(spec: dict[str, Any], **metadata: Any) -> str:
    workload = {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"name": "web", **metadata},
    }
    return json.dumps({"action": "submit", "workload": {**workload, "spec": spec}})


def tolerating(count: int) -> dict[str, Any]:
    return {
        "tolerations": [
            {"key": f"k{index}", "operator": "Exists"} for index in range(count)
        ]
    }


def excluding(count: int) -> dict[str, Any]:
    listed = [f"m{index}.large" for index in range(count)]
    expression = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "NotIn",
        "values": listed,
    }
    terms = [
        {"matchExpressions": [expression, {"key": "example.com/own", "operator": "Exists"}]}
    ]
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": terms
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }
                ]
            },
        }
    }


@pytest.mark.parametrize(
    ("body", "path", "bound"),
    [
        (
            submitted({}, annotations={"note": "é" * 8_200}),
            "workload.metadata.annotations",
            "annotation bytes",
        ),
        (
            submitted({**tolerating(100), "nodeSelector": {"a": "b"}}),
            "workload.spec",
            "constraints",
        ),
        (submitted(excluding(2_000)), "workload.spec", "constraint values"),
        (
            submitted(
                {},
                labels={f"{'k' * 200}.example/{index}": "v" * 60 for index in range(250)},
            ),
            "workload",
            "stored bytes",
        ),
    ],
)
def test_what_a_workload_may_cost_others_is_bounded_and_the_bound_named(
    body: str, path: str, bound: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_demand(body)
    (problem,) = caught.value.problems
    assert (problem.path, problem.rule) == (path, "bound")
    assert problem.message.startswith(f"{bound}: ")


@pytest.mark.parametrize(
    "body",
    [
        submitted({}, annotations={"note": "x" * 16_000}),
        submitted(tolerating(100)),
        submitted(excluding(1_900)),
    ],
)
def test_what_is_within_the_bounds_is_taken(body: str) -> None:
    parse_demand(body)


def test_a_message_that_is_too_large_is_refused_unread() -> None:
    assert refusal(" " * 131_073) == ("", "size")
