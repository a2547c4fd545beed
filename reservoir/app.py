"""The application: global options, and the list of commands."""

import os
from typing import Annotated, Final

import typer

from reservoir.commands.operate import deployment, envelope, tables
from reservoir.commands.policy import apply, delete, diff, validate
from reservoir.commands.see import explain, get
from reservoir.connection import Session

STACK_VARIABLE: Final = "RESERVOIR_STACK"

app = typer.Typer(
    name="reservoir",
    help="Put workload demand onto EC2 capacity that is already paid for, first.",
    no_args_is_help=True,
    rich_markup_mode=None,  # help is plain text: nothing in it is markup
    pretty_exceptions_show_locals=False,  # locals may hold user data
)


@app.callback()
def main(
    context: typer.Context,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--deployment", help="Deployment: name or path of its settings file. Default: the only one in deployments/."
        ),
    ] = None,
    stack: Annotated[
        str | None, typer.Option(help="Name of the deployed stack, instead of a deployment.", envvar=STACK_VARIABLE)
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="AWS region; default: the deployment's, else that of your AWS settings.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="AWS profile.")] = None,
) -> None:
    """Keep the options until a command connects; commands that need no account never do."""
    if profile is not None:
        os.environ["AWS_PROFILE"] = profile
    if region is not None:
        os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"] = region
    if context.obj is None:
        # A deployment that is named is meant, whatever stack the environment knows.
        named = stack if chosen is None or stack != os.environ.get(STACK_VARIABLE) else None
        context.obj = Session(named, chosen)


for module in (apply, diff, delete, get, explain, envelope, tables, validate, deployment):
    module.register(app)
