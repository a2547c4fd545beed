"""Every function must start from what is uploaded, and from nothing else that happens to lie on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

import pytest

from reservoir.names import DEFAULT_STACK, Function
from tests.infra.reading import of_type

# Loads each handler as AWS's runtime client does when a function starts. What all import of other people's is imported
# once; from there each handler starts in a process of its own, so that none finds modules of ours that another loaded.
START = """
import os, sys, traceback
import aws_lambda_powertools, botocore, pydantic
from awslambdaric.bootstrap import _get_handler

assert "reservoir" not in sys.modules
packages = [module.__file__ for module in (aws_lambda_powertools, botocore, pydantic)]
for handler in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            assert callable(_get_handler(handler))
            import reservoir
            print("started", handler, reservoir.__file__, *packages, flush=True)
        except BaseException:
            print(handler, traceback.format_exc(), file=sys.stderr, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def runtime_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with AWS's runtime client and what it needs, and no other package of this environment."""
    folder = tmp_path_factory.mktemp("runtime")
    for distribution in ("awslambdaric", "simplejson", "snapshot-restore-py"):
        for file in metadata.files(distribution) or ():
            if len(file.parts) > 1 and ".." not in file.parts and file.suffix != ".pyc":
                link = folder / file
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(str(file.locate())))
    return folder


def asset_folder(assembly: Path, s3_key: str) -> Path:
    files = json.loads((assembly / f"{DEFAULT_STACK}.assets.json").read_text())["files"]
    (source,) = (
        file["source"]["path"]
        for file in files.values()
        if any(
            destination["objectKey"] == s3_key
            for destination in file["destinations"].values()
        )
    )
    return assembly / str(source)


def functions_of(assembly: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    resources = json.loads((assembly / f"{DEFAULT_STACK}.template.json").read_text())[
        "Resources"
    ]
    by_handler = {
        f["Handler"]: f for f in of_type(resources, "AWS::Lambda::Function").values()
    }
    (layer,) = of_type(resources, "AWS::Lambda::LayerVersion").values()
    return by_handler, layer


@dataclass(frozen=True)
class Started:
    """Where the modules of a started handler lie, by handler; and what those that did not start said."""

    modules: Mapping[str, list[Path]]
    complaints: str
    task_root: Path
    layer_root: Path


@pytest.fixture(scope="module")
def started(embedded_assembly: Path, runtime_client: Path) -> Started:
    """Start every handler of the template with its asset, its layer, the runtime client, and nothing else."""
    by_handler, layer = functions_of(embedded_assembly)
    (properties, *others) = by_handler.values()
    assert all(other["Code"] == properties["Code"] for other in others)
    task_root = asset_folder(embedded_assembly, properties["Code"]["S3Key"])
    layer_root = asset_folder(embedded_assembly, layer["Content"]["S3Key"]) / "python"
    search_path = os.pathsep.join(
        str(folder) for folder in (task_root, layer_root, runtime_client)
    )
    given = {
        name: value if isinstance(value, str) else "x"
        for name, value in properties["Environment"]["Variables"].items()
    }
    answer = subprocess.run(  # noqa: S603 - our own code
        # -S: without this environment's packages, so that one that the layer lacks is missed.
        [sys.executable, "-S", "-B", "-W", "error", "-c", START, *by_handler],
        cwd=task_root,
        env={
            **given,
            "PYTHONPATH": search_path,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_LAMBDA_FUNCTION_NAME": properties["FunctionName"],
            "LAMBDA_TASK_ROOT": str(task_root),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    lines = [
        line.split() for line in answer.stdout.splitlines() if line.startswith("started ")
    ]
    modules = {handler: [Path(file) for file in files] for _, handler, *files in lines}
    return Started(modules, answer.stderr, task_root, layer_root)


@pytest.mark.parametrize("function", Function)
def test_the_handler_starts_from_its_asset(function: Function, started: Started) -> None:
    handler = f"functions.{function}.handler.handler"
    assert handler in started.modules, started.complaints
    product, *packages = started.modules[handler]
    assert product.is_relative_to(started.task_root)
    assert all(package.is_relative_to(started.layer_root) for package in packages)


def test_the_code_asset_holds_the_product_and_nothing_else(embedded_assembly: Path) -> None:
    by_handler, _ = functions_of(embedded_assembly)
    (key,) = {properties["Code"]["S3Key"] for properties in by_handler.values()}
    folder = asset_folder(embedded_assembly, key)
    assert {path.name for path in folder.iterdir()} == {"functions", "reservoir"}
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert {
        path for path in files if path.suffix not in {".py", ".pyc", ".typed", ".json"}
    } == set()
    sources = {path for path in files if path.suffix == ".py"}
    # Lambda's disk is read-only: what is not compiled here is compiled at every cold start.
    compiled = {
        Path(source_from_cache(str(path))) for path in files if path.suffix == ".pyc"
    }
    assert compiled == sources


def test_both_layers_hold_the_same_packages(
    assembly: Path, embedded_assembly: Path
) -> None:
    def packages(folder: Path) -> set[str]:
        _, layer = functions_of(folder)
        layer_root = asset_folder(folder, layer["Content"]["S3Key"]) / "python"
        return {path.name.split("-")[0] for path in layer_root.glob("*.dist-info")}

    assert packages(assembly) == packages(embedded_assembly)
