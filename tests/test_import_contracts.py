"""Each import contract must catch what it forbids; `lint-imports` itself is run by `make check`."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [
    *("functions", "functions.intake", "functions.launch", "infra", "embedded", "reservoir", "demo", "bench", "shared"),
    *("simulation", "integrations", "integrations.slurm"),
    *("shared.runtime", "shared.adapters", "shared.usecases", "shared.ports", "shared.manifests", "shared.core"),
    *("shared.deployment", "reservoir.client", "reservoir.agent"),
    *("shared.core.checking", "shared.core.solver"),
]
VIOLATIONS = [
    ("shared/core/model/claim.py", "import shared.ports", "imports point inwards"),
    ("shared/ports/ec2.py", "import shared.manifests", "imports point inwards"),
    ("shared/usecases/launching/launch.py", "import shared.adapters", "imports point inwards"),
    ("shared/adapters/ec2.py", "import shared.usecases", "imports point inwards"),
    ("shared/runtime/settings.py", "import functions.intake", "imports point inwards"),
    ("shared/core/model/claim.py", "import time", "the core is pure"),
    ("shared/core/model/claim.py", "from os import environ", "the core is pure"),
    ("shared/core/model/claim.py", "import numpy", "the core is pure"),
    ("shared/ports/ec2.py", "import boto3", "the core is pure"),
    ("functions/intake/handler.py", "import boto3", "boto3 stays in shared.adapters"),
    (
        "shared/usecases/launching/launch.py",
        "from botocore.exceptions import ClientError",
        "boto3 stays in shared.adapters",
    ),
    ("shared/adapters/ec2.py", "import os", "Powertools and the environment stay in shared.runtime"),
    ("functions/intake/handler.py", "import aws_lambda_powertools", "Powertools and the environment stay in"),
    ("functions/intake/handler.py", "import functions.launch", "functions do not import each other"),
    ("shared/core/solver/problem/groups.py", "import shared.core.solver.solution", "rooms of the solver"),
    ("shared/core/solver/packing/buying.py", "import shared.core.solver.insertion", "rooms of the solver"),
    ("shared/core/solver/packing/buying.py", "import shared.core.solver.column_generation", "rooms of the solver"),
    ("shared/core/checking/totals.py", "import shared.core.solver", "the checker shares nothing with the scheduler"),
    ("shared/core/checker.py", "import shared.core.scheduler", "the checker shares nothing with the scheduler"),
    ("shared/core/checking/totals.py", "import shared.core.checking.residual", "rooms of the checker"),
    ("shared/manifests/validate.py", "import shared.manifests.answers", "rooms of the manifests"),
    ("infra/stack.py", "import shared.core", "infra sees only names and the deployment's settings"),
    ("shared/runtime/settings.py", "import embedded", "the product does not know its tools"),
    ("shared/adapters/ec2.py", "import reservoir", "the product does not know its tools"),
    ("functions/launch/handler.py", "import moto", "the product does not know its tools"),
    ("shared/usecases/launch.py", "import simulation", "the product does not know its tools"),
    ("reservoir/client/client.py", "import shared.adapters", "the client stands alone"),
    ("integrations/slurm/resume.py", "import shared.adapters", "integrations stand on the client"),
    ("reservoir/client/client.py", "import typer", "the client stands alone"),
    ("reservoir/agent/agent.py", "import shared.manifests.reports", "the agent stands alone"),
    ("reservoir/agent/agent.py", "import boto3", "the agent stands alone"),
    ("shared/core/model/claim.py", "import shared.core.capacity", "rooms of the core"),
    ("shared/core/lease.py", "", "rooms of the core"),
    ("shared/usecases/draining/drain.py", "import shared.usecases.node_life", "rooms of the use cases"),
    ("shared/manifests/parsing/field.py", "import shared.manifests.kinds", "rooms of the manifests"),
    ("embedded/ec2/instances/view.py", "import embedded.ec2.fleets", "rooms of the emulated EC2"),
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the repository's own contracts on the packages in ``folder``."""
    return subprocess.run(  # noqa: S603 - our own tool
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """Return packages with the repository's names and nothing in them that a contract forbids."""
    for package in PACKAGES:
        folder = tmp_path.joinpath(*package.split("."))
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    for room in rooms():
        make_module(tmp_path, f"{room}.__init__").touch()
    (tmp_path / "shared" / "names.py").touch()
    (tmp_path / "infra" / "app.py").write_text("import shared.names\n")
    for exception, granted in ignored_imports().items():
        make_module(tmp_path, exception).write_text("".join(f"import {name}\n" for name in sorted(granted)))
        for name in granted:
            if name.startswith("shared."):
                make_module(tmp_path, name).touch()
    return tmp_path


def make_module(root: Path, name: str) -> Path:
    """Make the packages around module ``name``; return where the module goes."""
    module = root.joinpath(*name.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True, exist_ok=True)
    for folder in module.relative_to(root).parents:
        (root / folder / "__init__.py").touch()
    return module


def rooms() -> set[str]:
    """Return every room that a contract puts on a floor."""
    return {
        f"{container}.{room}"
        for contract in contracts()
        for container in contract.get("containers", [])
        for floor in contract["layers"]
        for room in floor.split(" | ")
    }


def contracts() -> list[dict[str, Any]]:
    """Return the repository's contracts as they are configured."""
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    return found


def ignored_imports() -> dict[str, set[str]]:
    """Return by module what a contract lets it import; import-linter insists that each exception is used."""
    found: dict[str, set[str]] = {}
    for importer, _, imported in (
        ignored.partition(" -> ") for contract in contracts() for ignored in contract.get("ignore_imports", [])
    ):
        found.setdefault(importer, set()).add(imported)
    return found


def test_a_plan_without_a_certificate_needs_no_package() -> None:
    code = "import sys, shared.core.scheduler; print({'highspy', 'numpy', 'pydantic'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_clean_packages_keep_every_contract(clean: Path) -> None:
    done = lint(clean)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"), VIOLATIONS, ids=[f"{file}: {line}" for file, line, _ in VIOLATIONS]
)
def test_the_contract_catches(clean: Path, file: str, line: str, contract: str) -> None:
    module = make_module(clean, ".".join(Path(file).with_suffix("").parts))
    module.write_text(line + "\n")
    done = lint(clean)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [report for report in done.stdout.splitlines() if " BROKEN" in report]
    assert any(report.startswith(contract) for report in broken), done.stdout


def modules_of_the_cdk() -> set[str]:
    """Return the modules of the CDK that the repository imports."""
    found = set()
    folders = [*tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"], "tests"]
    for path in [ROOT / "app.py", *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "aws_cdk":
                services = {f"aws_cdk.{each.name}" for each in node.names if each.name.startswith("aws_")}
                found |= {"aws_cdk", *services}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aws_cdk."):
                found.add(str(node.module))
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names if each.name.split(".")[0] == "aws_cdk"}
    return found


def test_mypy_reads_each_module_of_the_cdk_that_is_imported_and_no_other() -> None:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (read,) = (set(each["module"]) for each in overrides if each.get("follow_imports") == "normal")
    assert read == modules_of_the_cdk()
