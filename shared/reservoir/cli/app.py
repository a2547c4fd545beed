"""The application: global options, and the list of commands."""

import os
from typing import Annotated, Final

import typer

from reservoir.cli.lazy import Listed, lazy_group
from reservoir.cli.options import CONTEXT_VARIABLE, Options, choose_aws
from reservoir.names import VERSION

STACK_VARIABLE: Final = "RESERVOIR_STACK"

_ROOMS: Final = "reservoir.cli.commands"

# In the order of --help. What a command needs is imported when it is called (tests/cli/test_lazy.py).
COMMANDS: Final = (
    Listed(
        "apply",
        f"{_ROOMS}.policy.apply",
        "Create or change NodePools, EC2NodeClasses and Teams.",
    ),
    Listed("diff", f"{_ROOMS}.policy.diff", "Show what `apply` would change."),
    Listed(
        "delete", f"{_ROOMS}.policy.delete", "Delete NodePools, EC2NodeClasses and Teams."
    ),
    Listed(
        "validate", f"{_ROOMS}.policy.validate", "Check manifests, without an AWS account."
    ),
    Listed(
        "import",
        f"{_ROOMS}.policy.import_",
        "Write manifests for what other systems call their capacity.",
    ),
    Listed(
        "get",
        f"{_ROOMS}.see.get",
        "List workloads, nodes, reservations, offerings, policy.",
    ),
    Listed("describe", f"{_ROOMS}.see.describe", "Show everything about objects."),
    Listed(
        "explain",
        f"{_ROOMS}.see.explain",
        "Say why a node exists or stays, or why a workload waits.",
    ),
    Listed(
        "wait", f"{_ROOMS}.see.wait", "Wait until objects are ready, in a state, or gone."
    ),
    Listed(
        "status", f"{_ROOMS}.see.status", "Show the state of the deployment on one screen."
    ),
    Listed(
        "top", f"{_ROOMS}.see.top", "Show the status, and keep it up to date until Ctrl-C."
    ),
    Listed(
        "ui",
        f"{_ROOMS}.see.ui",
        "Serve a page of the present state to browsers of this machine.",
    ),
    Listed(
        "metrics",
        f"{_ROOMS}.see.metrics",
        "Print what `status` knows for Prometheus, as OpenMetrics.",
    ),
    Listed(
        "events",
        f"{_ROOMS}.past.events",
        "List what happened, to everything or to one object.",
    ),
    Listed(
        "logs", f"{_ROOMS}.past.logs", "Print what the commands of a workload have written."
    ),
    Listed("finished", f"{_ROOMS}.past.finished", "List workloads that have ended."),
    Listed("plan", f"{_ROOMS}.ask.plan", "Show what would happen to demand now."),
    Listed("replay", f"{_ROOMS}.ask.replay", "Run a stored plan again."),
    Listed(
        "advise",
        f"{_ROOMS}.ask.advise",
        "Show what to reserve, and what that would have saved.",
    ),
    Listed(
        "assess",
        f"{_ROOMS}.ask.assess",
        "Look at reservations before anything is deployed.",
    ),
    Listed(
        "report",
        f"{_ROOMS}.ask.report",
        "Write a report on reservations, money and demand.",
    ),
    Listed("submit", f"{_ROOMS}.act.submit", "Send workloads, new or changed."),
    Listed(
        "withdraw",
        f"{_ROOMS}.act.withdraw",
        "Withdraw workloads that are no longer wanted.",
    ),
    Listed(
        "release",
        f"{_ROOMS}.act.release",
        "Report that replicas have left a draining node.",
    ),
    Listed("cordon", f"{_ROOMS}.act.switches", "Stop nodes from taking new replicas."),
    Listed("uncordon", f"{_ROOMS}.act.switches", "Let nodes take new replicas again."),
    Listed("drain", f"{_ROOMS}.act.drain", "Drain nodes, then terminate them."),
    Listed("pause", f"{_ROOMS}.act.switches", "Stop NodePools from launching nodes."),
    Listed("resume", f"{_ROOMS}.act.switches", "Let NodePools launch nodes again."),
    Listed("reset", f"{_ROOMS}.act.switches", "Let workloads start at generation 1 again."),
    Listed("dlq", f"{_ROOMS}.act.dlq", "Inspect messages that failed too often."),
    Listed("doctor", f"{_ROOMS}.ask.doctor", "Check a deployment for problems."),
    Listed(
        "self-test",
        f"{_ROOMS}.operate.self_test",
        "Launch one small instance, and end it again.",
    ),
    Listed(
        "envelope",
        f"{_ROOMS}.operate.envelope",
        "Show what the safety envelope holds, or lift it once.",
    ),
    Listed("blocks", f"{_ROOMS}.operate.blocks", "Buy and extend Capacity Blocks."),
    Listed(
        "reservations",
        f"{_ROOMS}.operate.reservation_changes",
        "Make, change and cancel on-demand reservations.",
    ),
    Listed(
        "tables",
        f"{_ROOMS}.operate.tables",
        "Show whether the tables are complete, or adopt them.",
    ),
    Listed(
        "deployment",
        f"{_ROOMS}.operate.deployment",
        "Deploy, compare and destroy a deployment.",
    ),
    Listed(
        "config",
        f"{_ROOMS}.operate.contexts",
        "Give deployments names, and choose one of them.",
    ),
)

# How a command ends; typer.Exit has the numbers where they are meant.
EXIT_CODES: Final = {
    0: "success, even if nothing matched",
    1: "no: there are differences, the time was up, or Ctrl-C",
    2: "refused or failed, a name that does not exist, or wrong usage; the error stream says why",
}

app = typer.Typer(
    name="reservoir",
    epilog="Exit codes: "
    + ". ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())
    + ".",
    cls=lazy_group(COMMANDS),
    help="Put workload demand onto EC2 capacity that is already paid for, first.",
    no_args_is_help=True,
    rich_markup_mode=None,  # help is plain text: nothing in it is markup
    pretty_exceptions_show_locals=False,  # locals may hold user data
)


def _context_names() -> list[str]:
    from reservoir.cli.stack.contexts import names

    return names()


def _print_version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"reservoir {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--deployment",
            help="Deployment: name or path of its settings file. Default: the only one in deployments/.",
        ),
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option(
            help="Name of the deployed stack, instead of a deployment.",
            envvar=STACK_VARIABLE,
        ),
    ] = None,
    named: Annotated[
        str | None,
        typer.Option(
            "--context",
            help="Name of a context (reservoir config), instead of a stack or deployment.",
            envvar=CONTEXT_VARIABLE,
            autocompletion=_context_names,
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            help="AWS region; default: the deployment's, else that of your AWS settings."
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="AWS profile; default: that of AWS_PROFILE.")
    ] = None,
    endpoint_url: Annotated[
        str | None,
        typer.Option(
            help="Where to reach AWS; default: AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_SQS ..."
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Keep the options until a command connects; commands that need no account never do."""
    choose_aws(os.environ, profile=profile, region=region, endpoint_url=endpoint_url)
    if context.obj is None:
        said = _given_on_the_command_line(context)
        context.obj = Options(
            stack=stack if "stack" in said or not said else None,
            deployment=chosen,
            context=named if "named" in said or not said else None,
            region=region,
            profile=profile,
            endpoint_url=endpoint_url,
        )


def _given_on_the_command_line(context: typer.Context) -> set[str]:
    """Return which options name a stack there; what variables name does not count beside them."""
    sources = {
        name: context.get_parameter_source(name) for name in ("stack", "chosen", "named")
    }
    return {
        name
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    }
