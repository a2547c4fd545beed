"""What the commands about state share."""

from collections.abc import Callable
from difflib import unified_diff
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.text import Text

from reservoir.cli.console import fail, output, report
from reservoir.cli.options import Options
from reservoir.cli.stack.connection import Connection, Session
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.errors import AwsError
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.state import ConflictError

if TYPE_CHECKING:
    from reservoir.usecases.policy.apply_policy import (
        ApplyPolicy,
        ChangesPolicy,
        Outcome,
        PolicyChange,
    )

T = TypeVar("T")

_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def connection(context: typer.Context) -> Connection:
    """Return the stack of the global options."""
    if isinstance(context.obj, Options):
        context.obj = Session(context.obj)
    found: Connection = context.obj
    return found


def apply_policy(context: typer.Context) -> "ApplyPolicy":
    """Return the use case on the stack."""
    # imported here, as below, because most commands only read: the models of manifests take a fifth of a start
    from reservoir.manifests.known_values import of_catalogue
    from reservoir.usecases.policy.apply_policy import ApplyPolicy
    from reservoir.usecases.policy.resolve_principals import ResolvePrincipals

    stack = connection(context)
    principals = ResolvePrincipals(stack.outside.principals, stack.outside.clock)
    return ApplyPolicy(
        stack.outside.policy,
        _writer(stack),
        principals,
        stack.outside.settings.launch_limits,
        lambda: of_catalogue(stack.outside.offerings.load_catalogue()),
        lambda: [
            record.reservation for record in stack.outside.reservations.list_current()
        ],
    )


def _writer(stack: Connection) -> "ChangesPolicy":
    from reservoir.cli.stack.policy_changes import AskForChanges
    from reservoir.usecases.policy.write_policy import WritePolicy

    if stack.changes_policy:
        return AskForChanges(stack)
    # that of the release before lets whoever changes policy write it and say who they are
    outside = stack.outside
    return WritePolicy(outside.policy, outside.queue, outside.publisher, stack.caller())


def attempt(action: Callable[[], T]) -> T:
    """Do something that can be refused; end the command with all reasons when it is."""
    try:
        return action()
    except ManifestError as error:
        report(error.problems)
        fail("nothing was written")
    except ConflictError as error:
        fail(
            f"nothing was written, because somebody else was faster ({error}); read it again, then retry"
        )
    except UnreadableRowError as error:
        fail(f"nothing was written: cannot read the {error}")
    except AwsError as error:
        fail(f"AWS refused: {error}")


def print_outcome(outcome: "Outcome", *, dry_run: bool) -> None:
    """Print one line an object, and all doubts."""
    report(outcome.problems)
    suffix = " (dry run)" if dry_run else ""
    for change in outcome.changes:
        output().print(f"{change.kind.lower()}/{change.name} {change.change.value}{suffix}")


def print_diff(outcome: "Outcome") -> None:
    """Print what differs as unified diffs of YAML."""
    report(outcome.problems)
    console = output()
    for change in outcome.effective:
        for line in _diff(change):
            console.print(Text(line, style=_LINE_STYLES.get(line[:1], "")))


def _diff(change: "PolicyChange") -> list[str]:
    from reservoir.manifests.answers.render import comparable, sorted_deeply, to_yaml
    from reservoir.manifests.events import Change
    from reservoir.manifests.validate import KINDS

    name = f"{change.kind.lower()}/{change.name}"
    model = KINDS[change.kind][1]
    before, after = (
        "" if each is None else to_yaml([sorted_deeply(comparable(each, model))])
        for each in (change.before, change.after)
    )
    old = "/dev/null" if change.change is Change.CREATED else f"stored/{name}"
    new = "/dev/null" if change.change is Change.DELETED else f"given/{name}"
    return list(
        unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="")
    )
