"""Settings that cannot be meant, as things are in the account."""

from pathlib import Path
from typing import Any

import pytest

from reservoir.cli.deployment.account import FoundStack
from reservoir.cli.deployment.deploy import Deploy, contradictions
from reservoir.deployment.deployment import Deployment, read
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import DEPLOYMENT_NAME_OUTPUT

ACCOUNT = "111122223333"


def deployment(folder: Path, name: str, text: str) -> Deployment:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return read(path)


def stack(name: str, deployment_name: str | None) -> FoundStack:
    outputs = {} if deployment_name is None else {DEPLOYMENT_NAME_OUTPUT: deployment_name}
    return FoundStack(name, "CREATE_COMPLETE", outputs, {})


PRODUCTION = stack("Reservoir", "production")


def said(of: Deployment, *stacks: FoundStack, account: str = ACCOUNT) -> list[str]:
    return [str(problem) for problem in contradictions(of, account, stacks)]


class AccountInChina:
    """Whose region the environment names; nothing else of it is asked."""

    region = "cn-north-1"

    def id(self) -> str:
        return ACCOUNT

    def stacks(self) -> list[FoundStack]:
        return []


def test_a_region_that_only_the_environment_names_is_refused_like_one_of_the_settings(
    tmp_path: Path,
) -> None:
    calls: list[str] = []

    def cdk(command: str, *_arguments: str) -> None:
        calls.append(command)

    account: Any = AccountInChina()
    nothing: Any = None
    action = Deploy(
        deployment(tmp_path, "production", "{}"), account, nothing, cdk, calls.append
    )
    with pytest.raises(
        ManifestError,
        match="region: cn-north-1 is not supported: prices in China are in CNY",
    ):
        action.run((), to_older=False)
    assert calls == []


def test_the_same_again_is_none(tmp_path: Path) -> None:
    production = deployment(
        tmp_path, "production", f"{{stack: Reservoir, account: '{ACCOUNT}'}}"
    )
    assert said(production) == []
    assert (
        said(
            production,
            PRODUCTION,
            stack("Reservoir-staging", "staging"),
            stack("theirs", None),
        )
        == []
    )


def test_a_copied_file_that_still_names_the_other_stack_is_refused(tmp_path: Path) -> None:
    staging = deployment(tmp_path, "staging", "stack: Reservoir")
    assert said(staging, PRODUCTION) == [
        f"{staging.path}: error: stack: Reservoir is the stack of the deployment production; give this deployment"
        " another name [stack]"
    ]


@pytest.mark.parametrize("text", ["{}", "stack: Reservior"])
def test_another_name_for_a_stack_that_stands_is_refused(text: str, tmp_path: Path) -> None:
    production = deployment(tmp_path, "production", text)
    (refusal,) = said(production, PRODUCTION)
    assert (
        f"production is deployed as Reservoir, and {production.stack} would be a second stack"
        in refusal
    )
    assert "did you mean Reservoir?" in refusal


def test_credentials_of_another_account_are_refused(tmp_path: Path) -> None:
    production = deployment(tmp_path, "production", f"account: '{ACCOUNT}'")
    (refusal,) = said(production, account="999999999999")
    assert "account: is 111122223333, and these are credentials of 999999999999" in refusal


def test_a_stack_from_before_the_first_settings_file_is_taken_over(tmp_path: Path) -> None:
    assert (
        said(
            deployment(tmp_path, "production", "stack: Reservoir"), stack("Reservoir", None)
        )
        == []
    )
