"""Each import contract must catch what it forbids; `lint-imports` itself is run by `make check`."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [
    *(
        "functions",
        "functions.intake",
        "functions.launch",
        "infra",
        "integrations",
        "integrations.slurm",
        "lab",
    ),
    *(
        "reservoir",
        "reservoir.runtime",
        "reservoir.adapters",
        "reservoir.usecases",
        "reservoir.ports",
    ),
    *(
        "reservoir.manifests",
        "reservoir.core",
        "reservoir.core.checking",
        "reservoir.core.solver",
    ),
    *("reservoir.deployment", "reservoir.cli", "reservoir.client", "reservoir.agent"),
]
VIOLATIONS = [
    (
        "shared/reservoir/core/model/claim.py",
        "import reservoir.ports",
        "imports point inwards",
    ),
    (
        "shared/reservoir/ports/ec2.py",
        "import reservoir.manifests",
        "imports point inwards",
    ),
    (
        "shared/reservoir/usecases/launching/launch.py",
        "import reservoir.adapters",
        "imports point inwards",
    ),
    (
        "shared/reservoir/adapters/ec2.py",
        "import reservoir.usecases",
        "imports point inwards",
    ),
    (
        "shared/reservoir/runtime/settings.py",
        "import functions.intake",
        "imports point inwards",
    ),
    ("shared/reservoir/core/model/claim.py", "import time", "the core is pure"),
    ("shared/reservoir/core/model/claim.py", "from os import environ", "the core is pure"),
    ("shared/reservoir/core/model/claim.py", "import numpy", "the core is pure"),
    ("shared/reservoir/ports/ec2.py", "import boto3", "the core is pure"),
    ("functions/intake/handler.py", "import boto3", "boto3 stays in reservoir.adapters"),
    (
        "shared/reservoir/usecases/launching/launch.py",
        "from botocore.exceptions import ClientError",
        "boto3 stays in reservoir.adapters",
    ),
    (
        "shared/reservoir/adapters/ec2.py",
        "import os",
        "Powertools and the environment stay in reservoir.runtime",
    ),
    (
        "functions/intake/handler.py",
        "import aws_lambda_powertools",
        "Powertools and the environment stay in",
    ),
    (
        "functions/intake/handler.py",
        "import functions.launch",
        "functions do not import each other",
    ),
    (
        "shared/reservoir/core/scheduler/placement.py",
        "import reservoir.core.scheduler.teams",
        "rooms of the scheduler",
    ),
    (
        "shared/reservoir/core/scheduler/placement.py",
        "import reservoir.core.sharing",
        "placement knows no teams",
    ),
    (
        "shared/reservoir/core/solver/problem/groups.py",
        "import reservoir.core.solver.solution",
        "rooms of the solver",
    ),
    (
        "shared/reservoir/core/solver/packing/buying.py",
        "import reservoir.core.solver.insertion",
        "rooms of the solver",
    ),
    (
        "shared/reservoir/core/solver/packing/buying.py",
        "import reservoir.core.solver.column_generation",
        "rooms of the solver",
    ),
    (
        "shared/reservoir/core/checking/totals.py",
        "import reservoir.core.solver",
        "the checker shares nothing with the scheduler",
    ),
    (
        "shared/reservoir/core/checker.py",
        "import reservoir.core.scheduler",
        "the checker shares nothing with the scheduler",
    ),
    (
        "shared/reservoir/core/checking/totals.py",
        "import reservoir.core.checking.residual",
        "rooms of the checker",
    ),
    (
        "shared/reservoir/manifests/validate.py",
        "import reservoir.manifests.answers",
        "rooms of the manifests",
    ),
    (
        "infra/stack.py",
        "import reservoir.core",
        "infra sees only names and the deployment's settings",
    ),
    (
        "shared/reservoir/runtime/settings.py",
        "import lab.embedded",
        "the product does not know the lab",
    ),
    (
        "shared/reservoir/adapters/ec2.py",
        "import reservoir.cli",
        "functions do not know what is outside them",
    ),
    ("functions/launch/handler.py", "import moto", "the product does not know the lab"),
    (
        "shared/reservoir/usecases/launch.py",
        "import lab.simulation",
        "the product does not know the lab",
    ),
    (
        "shared/reservoir/client/client.py",
        "import reservoir.adapters",
        "the client stands alone",
    ),
    (
        "integrations/slurm/resume.py",
        "import reservoir.adapters",
        "integrations stand on the client",
    ),
    ("shared/reservoir/client/client.py", "import typer", "the client stands alone"),
    (
        "shared/reservoir/agent/agent.py",
        "import reservoir.manifests.reports",
        "the agent stands alone",
    ),
    ("shared/reservoir/agent/agent.py", "import boto3", "the agent stands alone"),
    (
        "shared/reservoir/core/model/claim.py",
        "import reservoir.core.capacity",
        "rooms of the core",
    ),
    ("shared/reservoir/core/lease.py", "", "rooms of the core"),
    (
        "shared/reservoir/usecases/draining/drain.py",
        "import reservoir.usecases.node_life",
        "rooms of the use cases",
    ),
    (
        "shared/reservoir/manifests/parsing/field.py",
        "import reservoir.manifests.kinds",
        "rooms of the manifests",
    ),
    ("infra/stack.py", "import lab.fakes", "the product does not know the lab"),
    ("shared/reservoir/cli/app.py", "import lab.demo", "the product does not know the lab"),
    ("lab/simulation/play.py", "import tests.core", "the lab does not know the tests"),
    ("lab/simulation/play.py", "import lab.bench", "rooms of the lab"),
    (
        "lab/embedded/ec2/instances/view.py",
        "import lab.embedded.ec2.fleets",
        "rooms of the emulated EC2",
    ),
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the repository's own contracts on the packages in ``folder``."""
    return subprocess.run(  # noqa: S603 - our own tool
        [
            str(Path(sys.executable).parent / "lint-imports"),
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        cwd=folder,
        env={
            "PYTHONPATH": os.pathsep.join([str(folder / "shared"), str(folder)]),
            "PATH": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """Return packages with the repository's names and nothing in them that a contract forbids."""
    for package in PACKAGES:
        make_module(tmp_path, f"{package}.__init__").touch()
    for room in rooms():
        make_module(tmp_path, f"{room}.__init__").touch()
    make_module(tmp_path, "reservoir.names").touch()
    (tmp_path / "infra" / "app.py").write_text("import reservoir.names\n")
    for exception, granted in ignored_imports().items():
        make_module(tmp_path, exception).write_text(
            "".join(f"import {name}\n" for name in sorted(granted))
        )
        for name in granted:
            if name.startswith("reservoir."):
                make_module(tmp_path, name).touch()
    return tmp_path


def make_module(root: Path, name: str) -> Path:
    """Make the packages around module ``name``; return where the module goes."""
    source_folder = root / "shared" if name.startswith("reservoir.") else root
    module = source_folder.joinpath(*name.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True, exist_ok=True)
    for folder in module.relative_to(source_folder).parents[:-1]:
        (source_folder / folder / "__init__.py").touch()
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
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
        "tool"
    ]["importlinter"]["contracts"]
    return found


def ignored_imports() -> dict[str, set[str]]:
    """Return by module what a contract lets it import; import-linter insists that each exception is used."""
    found: dict[str, set[str]] = {}
    for importer, _, imported in (
        ignored.partition(" -> ")
        for contract in contracts()
        for ignored in contract.get("ignore_imports", [])
    ):
        found.setdefault(importer, set()).add(imported)
    return found


def test_a_plan_without_a_certificate_needs_no_package() -> None:
    code = "import sys, reservoir.core.scheduler; print({'highspy', 'numpy', 'pydantic'} & {*sys.modules})"
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_clean_packages_keep_every_contract(clean: Path) -> None:
    done = lint(clean)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    VIOLATIONS,
    ids=[f"{file}: {line}" for file, line, _ in VIOLATIONS],
)
def test_the_contract_catches(clean: Path, file: str, line: str, contract: str) -> None:
    module = make_module(
        clean, ".".join(Path(file.removeprefix("shared/")).with_suffix("").parts)
    )
    module.write_text(line + "\n")
    done = lint(clean)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [report for report in done.stdout.splitlines() if " BROKEN" in report]
    assert any(report.startswith(contract) for report in broken), done.stdout


def modules_of_the_cdk() -> set[str]:
    """Return the modules of the CDK that the repository imports."""
    found = set()
    folders = ("functions", "infra", "integrations", "lab", "shared", "tests")
    for path in [
        ROOT / "app.py",
        *(path for folder in folders for path in (ROOT / folder).rglob("*.py")),
    ]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "aws_cdk":
                services = {
                    f"aws_cdk.{each.name}"
                    for each in node.names
                    if each.name.startswith("aws_")
                }
                found |= {"aws_cdk", *services}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "aws_cdk."
            ):
                found.add(str(node.module))
            elif isinstance(node, ast.Import):
                found |= {
                    each.name for each in node.names if each.name.split(".")[0] == "aws_cdk"
                }
    return found


def test_mypy_reads_each_module_of_the_cdk_that_is_imported_and_no_other() -> None:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"][
        "overrides"
    ]
    (read,) = (
        set(each["module"]) for each in overrides if each.get("follow_imports") == "normal"
    )
    assert read == modules_of_the_cdk()
