"""``reservoir finished`` on a world in memory."""

import json
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.history.past_event import PastEvent
from tests.cli.see.test_status import Broken, stack
from tests.cli.world_stack import invoke

__all__ = ["stack"]


@pytest.fixture
def over(stack: Any) -> Any:
    """One workload was withdrawn an hour ago, one two days ago."""
    now = stack.clock.now()
    for name, ago in (("late", timedelta(hours=1)), ("early", timedelta(days=2))):
        workload = {"namespace": "research", "name": name}
        begun = {"workload": workload, "action": "submit", "messageId": "m"}
        ended = {"workload": workload, "action": "withdraw", "messageId": "m"}
        stack.history.keep(
            [
                PastEvent(
                    f"s-{name}", now - ago - timedelta(hours=2), "Workload Accepted", begun
                )
            ]
        )
        stack.history.keep([PastEvent(f"w-{name}", now - ago, "Workload Accepted", ended)])
    return stack


def names(stack: Any, *arguments: str) -> list[str]:
    result = invoke(stack, "finished", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return [run["name"] for run in json.loads(result.stdout)["runs"]]


def test_what_ended_within_the_time_is_listed(over: Any) -> None:
    assert names(over) == ["late"]
    assert names(over, "--since", "3d") == ["early", "late"]
    assert names(over, "-n", "web") == []
    assert names(over, "--team", "nobody") == []
    shown = invoke(over, "finished").stdout
    assert "research/late" in shown
    assert "withdrawn" in shown


def test_where_nothing_has_ended_that_is_said(stack: Any) -> None:
    assert invoke(stack, "finished").stdout == "Nothing has finished.\n"


def test_a_history_that_cannot_be_read_is_said(stack: Any) -> None:
    stack.history = Broken()
    result = invoke(stack, "finished")
    assert (result.exit_code, "AccessDeniedException" in result.stderr) == (2, True)
