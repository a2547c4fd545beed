"""``reservoir deployment``: what ``make bootstrap``, ``diff``, ``deploy`` and ``destroy`` call."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from reservoir.cli import carried_checkout
from reservoir.cli.console import FAILED, Yes, add_group, fail, messages, output, report
from reservoir.cli.options import Options
from reservoir.cli.output import Form, Output, show
from reservoir.cli.stack.target import choose
from reservoir.manifests.parsing.problems import ManifestError

if TYPE_CHECKING:
    from reservoir.cli.deployment.deploy import Deploy
    from reservoir.deployment.deployment import Deployment

_ROLLBACK: Final = "--rollback"
Arguments = Annotated[list[str] | None, typer.Argument(help="Passed on to the CDK.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    purpose = "Deploy, compare and destroy a deployment."
    add_group(
        app,
        "deployment",
        purpose,
        check,
        bootstrap,
        diff,
        deploy,
        destroy,
        restore,
        first=_in_a_checkout,
    )


def _in_a_checkout() -> None:
    """Continue in the checkout that the wheel carries, where the command is installed from a wheel."""
    if carried_checkout.ARCHIVE.is_file():
        carried_checkout.go_on_there()


def check(context: typer.Context, form: Output = Form.TABLE) -> None:
    """Check for what would stop a deployment or its launches. Reads only; ends with 1 if there is an error."""
    from botocore.exceptions import BotoCoreError, ClientError

    from reservoir.adapters.clients import is_served, make_client
    from reservoir.adapters.ec2.network import Ec2LaunchEnvironment
    from reservoir.adapters.system import SystemClock
    from reservoir.cli.commands.ask.doctor import FINDINGS, WRONG
    from reservoir.cli.examination.before import CHECKS, look
    from reservoir.cli.examination.finding import Severity
    from reservoir.cli.examination.place import Place

    deployment = _deployment(context)
    region = make_client("sts").meta.region_name
    try:
        clients = _clients(deployment)
    except (BotoCoreError, ClientError) as error:
        fail(f"the account cannot be looked at: {error}")
    environment = Ec2LaunchEnvironment(
        clients("ec2"), clients("ssm"), clients("iam"), SystemClock()
    )
    prices = partial(clients, "pricing")
    place = Place(deployment, clients, prices, region, environment, is_served)
    found = look(place, (BotoCoreError, ClientError))
    show(found, FINDINGS, form, nothing=f"no problems found ({len(CHECKS)} checks)")
    if any(finding.severity is Severity.ERROR for finding in found):
        raise typer.Exit(WRONG)


def bootstrap(context: typer.Context, arguments: Arguments = None) -> None:
    """Make what the CDK needs in the deployment's account and region, once."""
    from reservoir.adapters.clients import make_client
    from reservoir.cli.deployment.account import Account
    from reservoir.cli.deployment.cdk import CdkCommandLine, bootstrap_arguments

    deployment, account = _deployment(context), Account(make_client)
    place = f"aws://{deployment.settings.account or account.id()}/{account.region}"
    chosen = bootstrap_arguments(deployment.settings)
    _attempt(
        lambda: CdkCommandLine(deployment.path)(
            "bootstrap", place, *chosen, *(arguments or ())
        )
    )


def diff(context: typer.Context, arguments: Arguments = None) -> None:
    """Say what `deploy` would change, in the stack and in policy."""
    _attempt(lambda: _deploy(context).diff(arguments or ()))


def deploy(
    context: typer.Context,
    arguments: Arguments = None,
    rollback: Annotated[
        bool,
        typer.Option(
            _ROLLBACK, help="Deploy this release although a newer one is deployed."
        ),
    ] = False,
) -> None:
    """Create or update the stack, after checking that the settings match the account."""
    given = list(arguments or ())
    # As `make deploy ARGS=--rollback` gives it. The CDK has a flag of this name too, which is its default.
    to_older = rollback or _ROLLBACK in given
    for_cdk = [argument for argument in given if argument != _ROLLBACK]
    _attempt(lambda: _deploy(context).run(for_cdk, to_older=to_older))


def destroy(
    context: typer.Context,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="Withdraw all workloads, and wait until nodes are gone."
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete the stack. Refused while instances of it run."""
    from reservoir.adapters.clients import make_client
    from reservoir.cli.deployment.account import Account
    from reservoir.cli.deployment.cdk import CdkCommandLine
    from reservoir.cli.deployment.connect import fleet
    from reservoir.cli.deployment.destroy import Destroy, DestroyRefusedError

    deployment = _deployment(context)
    action = Destroy(
        deployment,
        Account(make_client),
        partial(fleet, make_client),
        CdkCommandLine(deployment.path),
        _say,
        time.sleep,
    )

    def run() -> None:
        try:
            found = action.check(drain=drain)
        except DestroyRefusedError as error:
            fail(str(error))
        withdraws = "withdraw all workloads and " if drain else ""
        question = f"{withdraws}delete the stack {found.name} of {deployment.name}?"
        if not yes and typer.prompt(f"{question} Type its name") != deployment.name:
            fail("nothing was deleted")
        action.run(found)

    _attempt(run)


def restore(
    context: typer.Context,
    at: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ"],
            help="UTC, such as 2026-11-22T04:00Z. Default: the latest instant possible, some five minutes ago.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="As in the settings: nodeClaims. Default: all eight, which belong together.",
        ),
    ] = None,
    empty: Annotated[
        bool,
        typer.Option(
            "--empty", help="Make an empty table, where there is no backup; needs --table."
        ),
    ] = False,
) -> None:
    """Restore the tables into new ones, and say what to write into the settings to adopt them."""
    from reservoir.adapters.clients import make_client
    from reservoir.adapters.system import SystemClock
    from reservoir.cli.deployment.account import Account
    from reservoir.cli.deployment.restore import Restore, RestoreError
    from reservoir.deployment.deployment import table_field

    if empty and (at is not None or not only):
        fail("--empty needs --table, and cannot be used with --at")
    account, deployment = Account(make_client), _deployment(context)
    instant = None if at is None else at.replace(tzinfo=UTC)

    def run() -> None:
        found = next((it for it in account.stacks() if it.name == deployment.stack), None)
        sources = deployment.tables if found is None else found.tables
        chosen = {
            table: name
            for table, name in sources.items()
            if not only or table_field(table) in only
        }
        if not chosen:
            fail(
                f"no table to restore: there is no stack {deployment.stack}, or --table names none of its tables"
            )
        suffix = f"{instant or SystemClock().now():%Y%m%dT%H%M%S}"
        action = Restore(account, _say, time.sleep)
        try:
            restored = (
                action.make_empty(chosen, suffix)
                if empty
                else action.run(chosen, instant, suffix)
            )
        except RestoreError as error:
            fail(str(error))
        _say(f"now write into {deployment.path}, and deploy:")
        output().print("tables:")
        for table, name in restored.items():
            output().print(f"  {table_field(table)}: {name}")

    _attempt(run)


def _deployment(context: typer.Context) -> "Deployment":
    options: Options = context.obj
    found = choose(options, Path()).deployment
    if found is None:
        fail("this needs a settings file: use --deployment NAME, not the name of a stack")
    return found


def _clients(deployment: "Deployment") -> Callable[..., Any]:
    """Return clients that may read the account: the caller's, or those of the CDK's roles."""
    from reservoir.adapters.clients import client_with, make_client
    from reservoir.cli.deployment.deployer import clients_of_deployer, qualifier_of

    return clients_of_deployer(make_client, client_with, qualifier_of(deployment.settings))


def _deploy(context: typer.Context) -> "Deploy":
    from reservoir.cli.deployment.account import Account
    from reservoir.cli.deployment.cdk import CdkCommandLine
    from reservoir.cli.deployment.connect import deployed
    from reservoir.cli.deployment.deploy import Deploy

    deployment = _deployment(context)
    clients = _clients(deployment)
    return Deploy(
        deployment,
        Account(clients),
        partial(deployed, clients),
        CdkCommandLine(deployment.path),
        _say,
    )


def _say(line: str) -> None:
    messages().print(line)


def _attempt(action: Callable[[], None]) -> None:
    """Do it; end the command with all reasons when it is refused."""
    from botocore.exceptions import BotoCoreError, ClientError

    from reservoir.cli.deployment.account import LeftoversError
    from reservoir.cli.deployment.cdk import CdkError
    from reservoir.ports.errors import AwsError

    try:
        action()
    except ManifestError as error:
        report(error.problems)
        fail("nothing was touched")
    except (CdkError, LeftoversError) as error:
        _end(str(error))
    except (AwsError, BotoCoreError, ClientError) as error:
        fail(f"AWS refused: {error}")


def _end(message: str) -> NoReturn:
    _say(message)
    raise typer.Exit(FAILED)
