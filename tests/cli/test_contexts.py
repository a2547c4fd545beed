"""Contexts: names for deployments, in a file of the user."""

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from reservoir.cli.app import app
from reservoir.cli.options import Options
from reservoir.cli.stack.contexts import path_of
from reservoir.cli.stack.target import Target, choose


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the contexts are kept; there are two, and none is the current one."""
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody's")
    monkeypatch.setenv("AWS_PROFILE", "another")
    kept = tmp_path / "own" / "config.yaml"
    monkeypatch.setenv("RESERVOIR_CONFIG", str(kept))
    did("set-context", "prod", "--stack", "Reservoir", "--region", "us-east-1")
    did("set-context", "staging", "--stack", "Reservoir-staging", "--profile", "tests")
    return kept


def config(*words: str) -> Result:
    return CliRunner().invoke(app, ["config", *words], env={"NO_COLOR": "1"})


def did(*words: str) -> str:
    result = config(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("file")
def test_the_current_context_is_used_where_nothing_else_names_a_stack(
    tmp_path: Path,
) -> None:
    did("use-context", "staging")
    assert did("current-context") == "staging\n"
    assert choose(Options(), tmp_path) == Target("Reservoir-staging")
    assert os.getenv("AWS_PROFILE") == "tests"
    assert os.getenv("AWS_ACCESS_KEY_ID") is None  # the profile's credentials are meant
    assert choose(Options(stack="Other"), tmp_path) == Target("Other")
    assert choose(Options(context="prod"), tmp_path) == Target("Reservoir")
    assert os.getenv("AWS_REGION") == "us-east-1"


@pytest.mark.usefixtures("file")
def test_the_command_line_wins_against_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    choose(Options(context="prod", region="ap-south-1"), tmp_path)
    assert os.getenv("AWS_REGION") == "ap-south-1"


@pytest.mark.usefixtures("file")
def test_a_folder_with_another_deployment_than_the_current_context_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deployments").mkdir()
    settings = tmp_path / "deployments" / "staging.yaml"
    settings.write_text("region: us-west-2")
    did("use-context", "prod")
    with pytest.raises(typer.Exit):
        choose(Options(), tmp_path)
    assert "say --context NAME or --deployment staging" in capsys.readouterr().err
    assert choose(Options(deployment="staging"), tmp_path).stack == "Reservoir-staging"
    assert choose(Options(context="prod"), tmp_path) == Target("Reservoir")
    did("use-context", "staging")
    found = choose(Options(), tmp_path)
    assert found.deployment is not None
    assert found.deployment.path == settings
    assert os.getenv("AWS_PROFILE") == "tests"


def test_contexts_are_listed_changed_and_forgotten(file: Path) -> None:
    did("use-context", "prod")
    did("set-context", "prod", "--profile", "admin")
    rows = [line.split() for line in did("get-contexts").splitlines()]
    assert rows == [
        ["CURRENT", "NAME", "STACK", "REGION", "PROFILE"],
        ["*", "prod", "Reservoir", "us-east-1", "admin"],
        ["staging", "Reservoir-staging", "-", "tests"],
    ]
    forgotten = config("delete-context", "prod")
    assert "it was the current context" in forgotten.stderr
    assert did("get-contexts", "-o", "name") == "staging\n"
    assert config("current-context").exit_code == 2
    assert [each.name for each in file.parent.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("use-context", "stagin"), "did you mean staging?"),
        (("delete-context", "x"), "there are prod, staging"),
        (("set-context", "new"), "needs the name of a stack"),
        (("current-context",), "there is no current context"),
    ],
)
def test_what_cannot_be_done_is_said(file: Path, words: tuple[str, ...], said: str) -> None:
    before = file.read_text()
    result = config(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("contexts: {a: {stak: x}}", "did you mean stack?"),
        ("[a]", "must be one mapping"),
        ("contexts: {", "cannot be read"),
        ("currentContext: gone", "there is no context gone"),
    ],
)
def test_a_file_that_is_wrong_is_said_with_its_place(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file.write_text(text)
    with pytest.raises(typer.Exit):
        choose(Options(), tmp_path)
    told = capsys.readouterr().err
    assert said in told
    assert str(file) in told
    assert choose(Options(stack="Other"), tmp_path) == Target("Other")


@pytest.mark.usefixtures("file")
def test_two_ways_to_name_a_stack_are_refused_and_variables_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = ["--context", "prod", "--stack", "Other", "get", "nodes"]
    result = CliRunner().invoke(app, both, env={"NO_COLOR": "1"})
    assert (result.exit_code, result.stderr) == (
        2,
        "--stack and --context both name a stack; give one of them\n",
    )
    monkeypatch.setenv("RESERVOIR_STACK", "Another")
    unknown = ["--context", "gone", "get", "nodes"]
    result = CliRunner().invoke(app, unknown, env={"NO_COLOR": "1"})
    assert "there is no context gone" in result.stderr


def test_the_file_is_where_files_of_users_are() -> None:
    assert path_of({"RESERVOIR_CONFIG": "/a/b.yaml"}) == Path("/a/b.yaml")
    assert path_of({"XDG_CONFIG_HOME": "/x"}) == Path("/x/reservoir/config.yaml")
    assert path_of({}) == Path("~/.config/reservoir/config.yaml").expanduser()
