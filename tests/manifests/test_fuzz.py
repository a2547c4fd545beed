"""Whatever comes in, the answer is a manifest or problems, soon and in bounded memory."""

import copy
import json
import tracemalloc
from collections.abc import Callable, Iterator
from cProfile import Profile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.worlds.hostile_messages import hostile_messages
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.workload import Workload
from reservoir.manifests.answers.render import to_yaml, wire_form
from reservoir.manifests.crosscheck import ObjectSet, cross_check
from reservoir.manifests.messages import parse_demand
from reservoir.manifests.parsing.load import Document, load_documents
from reservoir.manifests.parsing.problems import ManifestError, Problem, Severity
from reservoir.manifests.parsing.structure import LARGEST_MESSAGE_BYTES, check_structure
from reservoir.manifests.validate import read_document, read_files
from tests.manifests.kinds import valid

MIB = 2**20
VALID = [valid.node_pool, valid.node_class, valid.workload]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "",
            "Never",
            "10%",
            "0",
            "*",
            "cr-1",
            "In",
            "Exists",
            "Gt",
            "1h",
            "@daily",
            "reserved",
            "\u202e",
        ]
    )
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a manifest."""
    if place:
        yield place
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, member in items:
        yield from places(member, (*place, step))


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A valid manifest with one to three places replaced, removed, or moved under another name."""
    manifest: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(VALID))())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(sorted(places(manifest), key=repr)))
        target: Any = manifest
        for step in place[:-1]:
            target = target[step]
        action = draw(st.sampled_from(["replace", "remove", "rename"]))
        if action == "replace":
            target[place[-1]] = draw(json_values)
        elif action == "rename" and isinstance(target, dict):
            target[draw(st.text(max_size=12))] = target.pop(place[-1])
        else:
            del target[place[-1]]
        if not manifest:
            break
    return manifest


def complaints(action: Callable[[], object]) -> tuple[Problem, ...]:
    """The problems that an action ends in; none when it succeeds."""
    try:
        action()
    except ManifestError as error:
        return error.problems
    return ()


def well_formed(manifest: Any) -> None:
    """Reading it ends in a manifest that is stable under printing, or in printable problems."""
    if complaints(lambda: check_structure(manifest)):  # then no reader has let it through
        return
    read, problems = read_document(Document(manifest))
    assert all(str(problem).isprintable() for problem in problems)
    if read is None:
        assert any(problem.severity is Severity.ERROR for problem in problems)
        return
    core = read.to_core()
    again = read_files([("printed", to_yaml([wire_form(read)]))])
    (same,) = again.manifests
    assert wire_form(same.manifest) == wire_form(read)
    assert same.manifest.to_core() == core


@given(mutated())
def test_mutated_manifests(manifest: dict[str, Any]) -> None:
    well_formed(manifest)


@given(mutated())
def test_mutated_messages(manifest: dict[str, Any]) -> None:
    body = json.dumps({"action": "submit", "workload": manifest})
    assert all(
        str(problem).isprintable() for problem in complaints(lambda: parse_demand(body))
    )


@given(json_values)
def test_random_json(value: Any) -> None:
    well_formed(value)
    for body in (
        json.dumps(value),
        json.dumps({"action": "release", "workload": value, "nodeClaim": value}),
    ):
        with pytest.raises(ManifestError):
            parse_demand(body)


@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass"))
)
def test_random_bytes(content: bytes) -> None:
    read_files([("file", content)])
    with pytest.raises(ManifestError):
        parse_demand(content)


@given(st.text(alphabet="abk:-[]{}&*!|>'\"#%@`?, \n\t<~0123", max_size=60))
def test_random_yaml(text: str) -> None:
    assert all(
        str(problem).isprintable() for problem in complaints(lambda: load_documents(text))
    )
    for read in read_files([("file", text)]).manifests:
        well_formed(read.document.value)


BOMBS: dict[str, Callable[[], str]] = {
    "flow lists": lambda: "[" * MIB,
    "flow pairs": lambda: "[" + "[]," * (MIB // 3 - 1) + "]",
    "flow maps": lambda: "[" + "{}," * (MIB // 3 - 1) + "]",
    "block depth": lambda: "".join(" " * depth + "a:\n" for depth in range(1_400)),
    "one scalar": lambda: "a: " + "x" * (MIB - 4),
    "folded scalar": lambda: "a: " + "x\n " * (MIB // 3 - 4),
    "escapes": lambda: 'a: "' + "\\x41" * (MIB // 4 - 4) + '"',
    "digits": lambda: "a: " + "9" * (MIB - 4),
    "documents": lambda: "---\n" * (MIB // 4),
    "keys": lambda: "\n".join(f"k{key}: 1" for key in range(MIB // 11)),
    "anchors": lambda: "- &a x\n" * (MIB // 7),
    "dashes": lambda: "- " * (MIB // 2),
    "questions": lambda: "? " * (MIB // 2),
    "colons": lambda: ":" * MIB,
    "braces": lambda: "{" * MIB,
    "tags": lambda: "!" * MIB,
    "comments": lambda: "# x\n" * (MIB // 4),
    "bidi": lambda: "metadata: {name: " + "\u202e" * (MIB // 3 - 10) + "}",
    "unknown fields": lambda: (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {"
        + ", ".join(f"field{key}: [1, 2, 3, 4, 5, 6, 7, 8, 9]" for key in range(999))
        + "}"
    ),
    "wrong values": lambda: (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {template: {spec: {requirements: ["
        + ", ".join("{key: [], operator: x, values: {}, z: 1}" for _ in range(100))
        + "]}}}"
    ),
    "long names": lambda: json.dumps(
        {
            "apiVersion": "reservoir/v1",
            "kind": "Workload",
            "metadata": {
                "name": "a" * 200_000,
                "namespace": "a-" * 100_000,
                "labels": {"a." * 100_000: "x"},
            },
            "spec": {
                "duration": "1h" * 100_000,
                "maxPricePerHour": "1" * 100_000,
                "x" * 100_000: 1,
            },
        }
    ),
}


POOL_LINES = (
    "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: p-{0}}}\nspec: {{template: {{spec: {{nodeClassRef:"
    " {{name: {1}}}, requirements: [{{key: team{0}, operator: In, values: [a]}}]}}}}}}\n"
)
CLASS_LINES = (
    "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: {0}}}\nspec: {{subnetSelectorTerms: [{{id:"
    " subnet-1}}], securityGroupSelectorTerms: [{{id: sg-1}}], amiSelectorTerms: [{{id: ami-1}}]}}\n"
)
WORKLOAD_LINES = (
    "apiVersion: reservoir/v1\nkind: Workload\nmetadata: {{name: w-{0}}}\nspec: {{nodeSelector: {{team{0}x: a}},"
    " resources: {{requests: {{nvidia.com/gpus{0}: 1}}}}}}\n"
)


def documents(*texts: str) -> str:
    return "---\n".join(texts)


# Many objects, each small: what they cost together, compared with each other too.
CROWDS: dict[str, Callable[[], str]] = {
    "values": lambda: documents(*("[" + "1," * 19_990 + "1]\n" for _ in range(26))),
    "classes that are almost there": lambda: documents(
        *(POOL_LINES.format(number, f"some-class-{number}x" * 6) for number in range(500)),
        *(CLASS_LINES.format(f"some-class-{number}y" * 6) for number in range(490)),
    ),
    "workloads and pools": lambda: documents(
        *(POOL_LINES.format(number, "c") for number in range(495)),
        CLASS_LINES.format("c"),
        *(WORKLOAD_LINES.format(number) for number in range(495)),
    ),
    "misspelt fields": lambda: documents(
        *(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {"
            + ", ".join(f"templat{field}{number}: 1" for field in range(40))
            + "}\n"
            for number in range(1_000)
        )
    ),
    "misspelt labels": lambda: documents(
        *(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {template: {spec: {requirements: ["
            + ", ".join(
                f"{{key: karpenter.k8s.aws/instance-acceleratr-name{key}, operator: Exists}}"
                for key in range(100)
            )
            + "]}}}\n"
            for _ in range(100)
        )
    ),
    "misspelt values": lambda: (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: {template: {spec: {requirements: ["
        + ", ".join(
            "{key: karpenter.sh/capacity-type, operator: In, values: ["
            + ",".join(f"reservedd{value}" for value in range(180))
            + "]}"
            for _ in range(100)
        )
        + "]}}}"
    ),
}


# Calls of functions, in Python and in C: the same number on every machine. A million take a sixth of a second here.
CALLS_MAX = 3_000_000


def measured(action: Callable[[], object]) -> tuple[int, float]:
    """How many functions were called, and MiB at most in use."""
    calls = Profile()
    tracemalloc.start()
    try:
        calls.runcall(action)
        peak_mib = tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()
    return sum(entry.callcount for entry in calls.getstats()), peak_mib


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_mebibyte_of_yaml_costs_bounded_work_and_100_mib(name: str) -> None:
    text = BOMBS[name]()
    assert len(text.encode()) <= MIB
    call_count, peak_mib = measured(lambda: read_files([("bomb", text)]))
    assert call_count < CALLS_MAX
    assert peak_mib < 100


@pytest.mark.parametrize("name", sorted(CROWDS))
def test_a_mebibyte_of_objects_is_compared_with_bounded_work_and_100_mib(name: str) -> None:
    text = CROWDS[name]()
    assert len(text.encode()) <= MIB

    def compare() -> None:
        values = [
            read.manifest.to_core() for read in read_files([("crowd", text)]).manifests
        ]
        pools = [value for value in values if isinstance(value, NodePool)]
        classes = [value for value in values if isinstance(value, NodeClass)]
        cross_check(
            ObjectSet(
                pools, classes, [value for value in values if isinstance(value, Workload)]
            )
        )

    call_count, peak_mib = measured(compare)
    assert call_count < CALLS_MAX
    assert peak_mib < 100


MISSPELT = {
    "matchExpressions": [
        {"key": "karpenter.k8s.aws/instance-acceleratr-name", "operator": "Exists"}
    ]
    * 90
}
JSON_BOMBS: dict[str, Callable[[], str]] = {
    "depth": lambda: "[" * MIB,
    "objects": lambda: '{"a":' * (MIB // 5),
    "lists": lambda: "[" + "[]," * (MIB // 3 - 2) + "0]",
    "maps": lambda: "[" + '{"":0},' * (MIB // 7 - 2) + "0]",
    "keys": lambda: "{" + ",".join(f'"k{key}":1' for key in range(MIB // 12)) + "}",
    "digits": lambda: "9" * MIB,
    "exponent": lambda: "1e" + "9" * (MIB - 3),
    "escapes": lambda: '"' + "\\u0041" * (MIB // 6 - 2) + '"',
    "numbers": lambda: "[" + "1.5," * (MIB // 4 - 2) + "1]",
    "repeated": lambda: "{" + '"a":1,' * (MIB // 6 - 2) + '"a":1}',
    "misspelt labels": lambda: json.dumps(
        {
            "action": "submit",
            "workload": {
                "spec": {
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [MISSPELT] * 50
                            }
                        }
                    }
                }
            },
        }
    ),
}


@pytest.mark.parametrize("name", sorted(hostile_messages()))
def test_refusing_a_message_costs_little_whatever_it_holds(name: str) -> None:
    body = hostile_messages()[name]
    assert len(body) <= LARGEST_MESSAGE_BYTES

    def parse() -> None:
        with pytest.raises(ManifestError):
            parse_demand(body)

    parse()  # models are built when they are used first
    call_count, peak_mib = measured(parse)
    assert call_count < 120_000  # 20 ms
    assert peak_mib < 20


@pytest.mark.parametrize("name", sorted(JSON_BOMBS))
def test_a_mebibyte_of_json_costs_bounded_work_and_100_mib(name: str) -> None:
    body = JSON_BOMBS[name]()
    assert len(body) <= MIB

    def parse() -> None:
        with pytest.raises(ManifestError):
            parse_demand(body)

    call_count, peak_mib = measured(parse)
    assert call_count < CALLS_MAX
    assert peak_mib < 100
