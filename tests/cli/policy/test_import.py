"""``reservoir import``: manifests to the standard output, what has no counterpart to the error stream."""

from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from reservoir.cli.app import app

EXAMPLES: Final = Path(__file__).parents[2] / "manifests" / "importing" / "examples"
# An id that EC2 could have given, of an image that a class cannot name.
UNFINISHED: Final = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: unfinished}
spec: {role: nodes, amiSelectorTerms: [{id: ami-123}]}
"""


def test_what_is_printed_is_valid_as_it_stands() -> None:
    group = EXAMPLES / "nodegroup.json"
    imported = CliRunner().invoke(app, ["import", "-f", str(group)])
    assert imported.exit_code == 0
    assert "updateConfig: replacement is bounded" in imported.stderr
    checked = CliRunner().invoke(app, ["validate", "-f", "-"], input=imported.stdout)
    assert (checked.exit_code, checked.stdout) == (0, "2 valid\n")


def test_all_of_a_folder_is_valid_together() -> None:
    imported = CliRunner().invoke(app, ["import", "-f", str(EXAMPLES)])
    assert imported.exit_code == 0, imported.stderr
    checked = CliRunner().invoke(app, ["validate", "-f", "-"], input=imported.stdout)
    assert checked.exit_code == 0, checked.stderr


def test_nothing_is_printed_of_what_cannot_be_read() -> None:
    refused = CliRunner().invoke(app, ["import", "-f", "-"], input="{a: 1}")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "stdin:1: error: is of no form that can be imported" in refused.stderr


def test_an_input_without_capacity_says_so() -> None:
    empty = CliRunner().invoke(
        app, ["import", "-f", str(EXAMPLES / "launch-templates.json")]
    )
    assert (empty.exit_code, empty.stdout) == (2, "")
    assert "the input holds nothing to import" in empty.stderr


def test_what_needs_work_is_printed_with_what_is_wrong() -> None:
    unfinished = CliRunner().invoke(app, ["import", "-f", "-"], input=UNFINISHED)
    assert unfinished.exit_code == 2
    assert "name: unfinished" in unfinished.stdout
    assert "need work before they are valid" in unfinished.stderr
