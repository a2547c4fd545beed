"""The control API's documentation is complete."""

from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from lab.embedded.ec2.account.state import Settings
from lab.embedded.ec2.control.actions import ACTIONS

TEXT = (Path(__file__).parents[3] / "docs" / "ec2-emulation.md").read_text()

# What says which launches a fault is about.
LAUNCHES = ("instance_type", "zone", "market", "count")


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_and_member_is_documented(action: str) -> None:
    row = next(
        (line for line in TEXT.splitlines() if line.startswith(f"| `{action}` |")), ""
    )
    members = [
        name
        for name in signature(ACTIONS[action]).parameters
        if name not in {"world", "settings", "launches"}
    ]
    if "launches" in signature(ACTIONS[action]).parameters:
        members += LAUNCHES
    assert [name for name in members if f"`{name}`" not in row] == []
    assert row


@pytest.mark.parametrize("setting", [field.name for field in fields(Settings)])
def test_every_setting_is_documented(setting: str) -> None:
    assert f"`{setting}`" in TEXT
