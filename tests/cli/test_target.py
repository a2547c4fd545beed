"""Which stack the command line talks to, and when it refuses to."""

import os
from pathlib import Path

import pytest
import typer

from reservoir.cli.options import Options, choose_aws
from reservoir.cli.stack.target import Target, choose
from reservoir.deployment.deployment import read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two deployments."""
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(variable, "us-west-2")
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments" / "production.yaml").write_text(
        "{stack: Reservoir, account: '111122223333'}"
    )
    (tmp_path / "deployments" / "staging.yaml").write_text("region: eu-west-1")
    return tmp_path


def production(folder: Path) -> Target:
    return choose(Options(deployment="production"), folder)


def test_a_deployment_names_its_stack(folder: Path) -> None:
    assert production(folder).stack == "Reservoir"
    assert choose(Options(deployment="staging"), folder).stack == "Reservoir-staging"
    assert choose(Options(stack="Other"), folder) == Target("Other")


def test_the_region_of_the_settings_holds_unless_one_is_chosen(folder: Path) -> None:
    choose(Options(deployment="staging", region="ap-south-1"), folder)
    assert (os.getenv("AWS_REGION"), os.getenv("AWS_DEFAULT_REGION")) == (
        "us-west-2",
        "us-west-2",
    )
    choose(Options(deployment="staging"), folder)
    assert (os.getenv("AWS_REGION"), os.getenv("AWS_DEFAULT_REGION")) == (
        "eu-west-1",
        "eu-west-1",
    )


def test_the_options_for_aws_win_against_variables() -> None:
    variables = {
        "AWS_PROFILE": "old",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_SQS": "http://sqs",
        "HOME": "/home",
    }
    choose_aws(variables, profile="new", region="eu-west-1", endpoint_url="http://all")
    assert variables == {
        "AWS_PROFILE": "new",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://all",
        "HOME": "/home",
    }


def test_without_options_the_variables_of_the_aws_cli_count() -> None:
    variables = {
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
    }
    choose_aws(variables, profile=None, region=None, endpoint_url=None)
    assert variables == {
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "key",
    }


def test_none_of_several_both_or_a_wrong_one_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stack, deployment in ((None, None), ("Reservoir", "staging"), (None, "stagin")):
        with pytest.raises(typer.Exit):
            choose(Options(stack, deployment), folder)
    said = capsys.readouterr().err
    assert "which deployment? There are production, staging" in said
    assert "--stack and --deployment both name a stack" in said
    assert "did you mean staging?" in said


def test_a_stack_of_another_deployment_is_refused(folder: Path) -> None:
    """A settings file was copied, and still names the stack of the first."""
    copied = folder / "deployments" / "staging.yaml"
    copied.write_text("stack: Reservoir")
    staging = Target("Reservoir", read(copied))
    refusal = staging.contradiction("111122223333", {"DeploymentName": "production"})
    assert (
        refusal
        == f"the stack Reservoir is the deployment production, not staging: see stack in {copied}"
    )
    assert (
        production(folder).contradiction("111122223333", {"DeploymentName": "production"})
        is None
    )


def test_credentials_of_another_account_are_refused(folder: Path) -> None:
    refusal = production(folder).contradiction("999999999999", {})
    assert (
        refusal
        == "the deployment production belongs to account 111122223333, and these are credentials of 999999999999"
    )


def test_a_stack_that_no_settings_file_made_is_taken_over(folder: Path) -> None:
    assert production(folder).contradiction("111122223333", {}) is None


def test_the_stack_that_is_named_is_never_contradicted() -> None:
    assert (
        Target("Other").contradiction("999999999999", {"DeploymentName": "production"})
        is None
    )
