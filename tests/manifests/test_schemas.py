import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reservoir.manifests.parsing.load import load_documents
from tests.manifests.kinds import valid

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
GOLDEN = ROOT / "tests" / "manifests" / "golden"


def generated() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[Path, str] = module.files()
    return found


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text())


def accepts(name: str, value: Any) -> bool:
    return jsonschema.Draft202012Validator(schema(name)).is_valid(value)


def test_schemas_and_reference_are_what_the_models_say() -> None:
    wanted = generated()
    stale = [
        path.name
        for path, content in wanted.items()
        if not path.exists() or path.read_text() != content
    ]
    assert stale == [], "run python docs/generate.py"
    assert set(SCHEMAS.rglob("*.json")) == {
        path for path in wanted if path.suffix == ".json"
    }


@pytest.mark.parametrize(
    "path", sorted(SCHEMAS.rglob("*.json")), ids=lambda path: path.stem
)
def test_every_schema_is_one(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def titles_of_properties(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for inner in part:
            yield from titles_of_properties(inner)
        return
    if not isinstance(part, dict):
        return
    properties = part.get("properties")
    if isinstance(properties, dict):
        for name, stated in properties.items():
            if isinstance(stated, dict) and "title" in stated:
                yield name
    for inner in part.values():
        yield from titles_of_properties(inner)


@pytest.mark.parametrize(
    "path", sorted(SCHEMAS.rglob("*.json")), ids=lambda path: path.stem
)
def test_only_types_have_titles_so_that_generators_name_only_those(path: Path) -> None:
    assert list(titles_of_properties(json.loads(path.read_text()))) == []


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.json")), ids=lambda path: path.stem)
def test_each_message_has_a_schema_of_its_own_that_refuses_the_others(path: Path) -> None:
    message = json.loads(path.read_text())
    accepting = [
        each.stem
        for each in sorted((SCHEMAS / "messages").glob("*.json"))
        if accepts(f"messages/{each.name}", message)
    ]
    wanted = "submit" if message["action"] == "update" else message["action"]
    assert accepting == [wanted]


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("nodepool.json", valid.node_pool()),
        ("ec2nodeclass.json", valid.node_class()),
        ("team.json", valid.team()),
        ("workload.json", valid.workload()),
    ],
)
def test_a_schema_accepts_what_is_valid_and_not_what_is_misspelt(
    name: str, manifest: dict[str, Any]
) -> None:
    assert accepts(name, manifest)
    assert accepts("manifest.json", manifest)
    manifest["spec"]["misspelt"] = 1
    assert not accepts(name, manifest)
    assert not accepts("manifest.json", manifest)


# cloud-init's
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    if path.parent.name != "nodes"
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_follow_the_schema(path: Path) -> None:
    name = "deployment.json" if path.parent.name == "deployments" else "manifest.json"
    for document in load_documents(path.read_text()):
        jsonschema.validate(document.value, schema(name))


@pytest.mark.parametrize(
    "path",
    sorted(GOLDEN.rglob("*.json")),
    ids=lambda path: path.stem,
)
def test_golden_messages_follow_the_schema(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text()), schema("demand-message.json"))
