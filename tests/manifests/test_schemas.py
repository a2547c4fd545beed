import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reservoir.manifests.parsing.load import load_documents
from tests.manifests.kinds import valid

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"


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
    sorted((ROOT / "tests" / "manifests" / "golden").rglob("*.json")),
    ids=lambda path: path.stem,
)
def test_golden_messages_follow_the_schema(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text()), schema("demand-message.json"))
