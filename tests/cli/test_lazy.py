import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from reservoir.cli.app import COMMANDS, app
from reservoir.cli.lazy import Listed

ROOT = Path(__file__).parents[2]
# What makes a start slow: AWS's libraries, the models of manifests, tables, and the product but for its names.
HEAVY = {"boto3", "botocore", "pydantic", "rich", "yaml"} | {
    f"reservoir.{path.parent.name}"
    for path in ROOT.glob("shared/reservoir/*/__init__.py")
    if path.parent.name != "cli"
}


def imported(
    *arguments: str, variables: dict[str, str] | None = None, ends_with: int = 0
) -> set[str]:
    """Return the packages that a call of the command line imports, and Reservoir's rooms."""
    code = (
        "import atexit, sys; atexit.register(lambda: print(sorted({'.'.join(m.split('.')[:2]) for m in sys.modules}),"
        " file=sys.stderr)); from reservoir.cli.app import app; app(sys.argv[1:], prog_name='reservoir')"
    )
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=variables or {},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ends_with, done.stderr
    return set(eval(done.stderr.splitlines()[-1]))  # noqa: S307 - our own list


def test_help_imports_nothing_that_a_command_needs() -> None:
    assert imported("--help") & HEAVY == set()


def test_who_names_no_stack_is_told_so_before_anything_of_aws_is_imported() -> None:
    assert (
        imported("get", "pools", ends_with=2) & {"boto3", "botocore", "reservoir.adapters"}
        == set()
    )


@pytest.mark.parametrize(
    "noun", ["workloads", "nodes", "reservations", "offerings", "events"]
)
def test_reading_imports_no_models_of_manifests(noun: str) -> None:
    code = (
        f"import sys, reservoir.cli.commands.see.get, reservoir.cli.stack.connection, reservoir.cli.nouns.{noun};"
        "print([name for name in sys.modules if name.startswith('reservoir.manifests.kinds')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout == "[]\n"


def test_completion_of_commands_imports_nothing_that_a_command_needs() -> None:
    typed = {
        "_RESERVOIR_COMPLETE": "complete_bash",
        "COMP_WORDS": "reservoir va",
        "COMP_CWORD": "1",
    }
    # Typer itself reads arguments with it
    assert imported(variables=typed) & HEAVY == {"pydantic"}


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda listed: listed.name)
def test_a_command_begins_its_help_as_the_list_says(listed: Listed) -> None:
    assert listed.load().help.startswith(listed.purpose)


def test_the_list_cuts_no_purpose() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    assert [each.purpose for each in COMMANDS if each.purpose not in shown] == []


def test_a_typo_is_understood() -> None:
    result = CliRunner().invoke(app, ["aply"])
    assert result.exit_code == 2
    assert "Did you mean 'apply'" in result.stderr


def test_commands_are_called_under_their_own_names() -> None:
    group: Any = typer.main.get_command(app)
    assert list(group.commands) == [each.name for each in COMMANDS]
    assert {each.load().name for each in COMMANDS} == set(group.commands)
