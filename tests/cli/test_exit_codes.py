"""A command ends as docs/cli.md says."""

import pytest

from reservoir.cli.app import EXIT_CODES
from tests.cli.policy.test_policy_commands import POLICY, Stack
from tests.cli.world_stack import invoke


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["get", "pools"], 0),
        (["apply", "-f", POLICY], 0),
        (["diff", "-f", POLICY], 1),
        (["get", "pool", "absent"], 2),
        (["get", "wrkloads"], 2),
        (["apply", "-f", "/no/such/file"], 2),
        (["get", "--no-such-option"], 2),
        (["no-such-command"], 2),
    ],
)
def test_a_command_ends_as_the_page_says(arguments: list[str], code: int) -> None:
    assert invoke(Stack(), *arguments).exit_code == code
    assert code in EXIT_CODES


def test_help_tells_the_exit_codes() -> None:
    told = " ".join(invoke(Stack(), "--help").stdout.split())
    assert [
        code for code, meaning in EXIT_CODES.items() if f"{code}: {meaning}" not in told
    ] == []
