"""The wheel, installed into an environment of its own, is the command line."""

import ast
import re
import shutil
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from reservoir.names import VERSION
from tests.installed_wheel import ROOT, built, done, installed

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("environment"), wheel)


def test_the_executable_helps_and_tells_its_version(
    bin_folder: Path, tmp_path: Path
) -> None:
    assert done(bin_folder / "reservoir", "--help", cwd=tmp_path).stdout.startswith(
        "Usage: reservoir "
    )
    assert (
        done(bin_folder / "reservoir", "--version", cwd=tmp_path).stdout
        == f"reservoir {VERSION}\n"
    )


def test_the_executable_validates_the_examples(bin_folder: Path, tmp_path: Path) -> None:
    examples = ROOT / "examples"
    answer = done(
        bin_folder / "reservoir",
        "validate",
        "-f",
        examples / "policy",
        "-f",
        examples / "workloads",
        cwd=tmp_path,
    )
    assert (answer.returncode, answer.stdout) == (0, "6 valid\n"), answer.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_for_the_executable(
    shell: str, bin_folder: Path, tmp_path: Path
) -> None:
    # the shell is named, not looked for
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = done(
        bin_folder / "reservoir", "--show-completion", shell, cwd=tmp_path, **named
    ).stdout
    assert f"_RESERVOIR_COMPLETE=complete_{shell}" in script
    answer = done(
        bin_folder / "reservoir", "--install-completion", shell, cwd=tmp_path, **named
    )
    assert answer.returncode == 0, answer.stderr
    assert script.strip() in {
        file.read_text().strip() for file in tmp_path.rglob("*") if file.is_file()
    }


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("reservoir vali", ["validate"]),
        ("reservoir get wo", ["workloads"]),
        ("reservoir get nodes,re", ["nodes,reservations"]),
        ("reservoir get workloads wo", []),
    ],
)
def test_completion_completes(
    words: str, found: list[str], bin_folder: Path, tmp_path: Path
) -> None:
    number = str(words.count(" "))
    typed = {
        "_RESERVOIR_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": number,
    }
    assert done(bin_folder / "reservoir", cwd=tmp_path, **typed).stdout.split() == found


def test_deploying_without_the_extra_says_how_to_get_it(
    bin_folder: Path, tmp_path: Path
) -> None:
    """What deploys with it is in tests/deployment/test_installed.py."""
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'aws_cdk' else find(name, package)\n"
        "sys.argv[1:] = ['deployment', 'deploy']\n"
        "from reservoir.__main__ import run; run()"
    )
    answer = done(bin_folder / "python", "-c", code, cwd=tmp_path)
    assert answer.returncode == 2
    assert "pip install 'reservoir-ec2[deploy]'" in answer.stderr
    assert "make deploy in a checkout" in answer.stderr


def test_every_command_needs_declared_packages_only(
    bin_folder: Path, tmp_path: Path
) -> None:
    """What is not declared, neither directly nor by a package that is, cannot be imported here."""
    code = (
        "import sys\n"
        "class Refused:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in sys.argv[1:]: raise ImportError('not declared: ' + name)\n"
        "sys.meta_path.insert(0, Refused())\n"
        "import pkgutil, importlib, reservoir.cli.commands\n"
        "from reservoir.runtime.composition.parts.aws_outside import AwsOutside\n"
        "found = [m.name for m in pkgutil.walk_packages(reservoir.cli.commands.__path__, 'reservoir.cli.commands.')]\n"
        "print(len([importlib.import_module(name) for name in found]))\n"
    )
    undeclared = [
        "aws_cdk",
        "aws_lambda_powertools",
        "boto3",
        "functions",
        "highspy",
        "infra",
        "numpy",
        "shared",
    ]
    assert set(undeclared) & {name.replace("-", "_") for name in declared()} == set()
    answer = done(bin_folder / "python", "-c", code, *undeclared, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) > 10


def test_integrations_and_examples_import_nothing_that_the_wheel_lacks(
    bin_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(
        ROOT / "integrations",
        tmp_path / "integrations",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    modules = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in ROOT.glob("integrations/*/*.py")
    }
    of_ray = {"integrations.ray.provider"}  # imports Ray
    code = "\n".join(
        [f"import {name.removesuffix('.__init__')}" for name in sorted(modules - of_ray)]
        + [line for file in ROOT.glob("examples/client/*.py") for line in imports_of(file)]
    )
    answer = done(bin_folder / "python", "-c", code, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr


def imports_of(file: Path) -> list[str]:
    return [
        ast.unparse(it)
        for it in ast.parse(file.read_text()).body
        if isinstance(it, ast.Import | ast.ImportFrom)
    ]


def test_who_checks_types_sees_those_of_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "reservoir/py.typed" in archive.namelist()


def declared() -> set[str]:
    """Return what is installed with the wheel."""
    found: set[str] = set()
    todo = [Requirement(each) for each in PROJECT["project"]["dependencies"]]
    while todo:
        wanted = todo.pop()
        if wanted.name not in found and (
            wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        ):
            found.add(wanted.name)
            todo += [Requirement(each) for each in requires(wanted.name) or ()]
    return found


def test_what_the_wheel_requires_is_what_is_locked_and_tested() -> None:
    groups = PROJECT["dependency-groups"]
    names = {Requirement(each).name: each for each in (*groups["runtime"], *groups["cli"])}
    assert [
        each for each in PROJECT["project"]["dependencies"] if each not in names.values()
    ] == []


def test_each_extra_is_what_the_checkout_locks_for_it() -> None:
    groups, extras = (
        PROJECT["dependency-groups"],
        PROJECT["project"]["optional-dependencies"],
    )
    assert extras["report"] == groups["report"]
    assert [each for each in extras["plan"] if each not in groups["runtime"]] == []
    assert sorted(extras["deploy"]) == sorted([*groups["cdk"], *groups["bootstrap"]])


def test_the_wheel_brings_one_name_and_no_way_around_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        sources = [archive.read(name).decode() for name in names if name.endswith(".py")]
    assert {name.split("/")[0] for name in names} == {
        "reservoir",
        f"reservoir_ec2-{VERSION}.dist-info",
    }
    elsewhere = re.compile(r"^\s*(from|import) (lab|shared|tests)[. ]", re.MULTILINE)
    assert [text for text in sources if elsewhere.search(text)] == []


def test_the_wheel_is_the_folder_of_the_product_and_what_deploys(wheel: Path) -> None:
    product = ROOT / "shared"
    files = {
        path
        for path in (product / "reservoir").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    ours = {path.relative_to(product).as_posix(): path.read_bytes() for path in files}
    with zipfile.ZipFile(wheel) as archive:
        inside = {
            name: archive.read(name)
            for name in archive.namelist()
            if name.startswith("reservoir/")
        }
    assert set(inside) - set(ours) == {"reservoir/cli/checkout.zip"}
    assert {name: inside[name] for name in ours} == ours
