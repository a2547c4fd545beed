"""Which stack the command line talks to."""

import os
from dataclasses import dataclass
from pathlib import Path

from reservoir.cli.console import fail, report
from reservoir.cli.options import Options, choose_aws, choose_region
from reservoir.cli.stack import contexts
from reservoir.deployment.deployment import FOLDER, Deployment, find, read
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import DEPLOYMENT_NAME_OUTPUT


@dataclass(frozen=True, slots=True)
class Target:
    """A stack, and the deployment whose settings name it; None when the stack's own name was given."""

    stack: str
    deployment: Deployment | None = None

    def contradiction(self, account: str, outputs: dict[str, str]) -> str | None:
        """Say why a stack that was found, in this account and with these outputs, is not the one that is meant."""
        if self.deployment is None:
            return None
        name, wanted = self.deployment.name, self.deployment.settings.account
        if wanted is not None and account != wanted:
            return f"the deployment {name} belongs to account {wanted}, and these are credentials of {account}"
        # stacks before the first settings file had no such output
        deployed = outputs.get(DEPLOYMENT_NAME_OUTPUT, name)
        if deployed != name:
            settings_file = self.deployment.path
            return f"the stack {self.stack} is the deployment {deployed}, not {name}: see stack in {settings_file}"
        return None


def choose(options: Options, folder: Path) -> Target:
    """Return the target of the global options; the region of the settings holds from now on, if none was chosen.

    Ends the command when nothing or too much was chosen, or the settings file is wrong.
    """
    given = {
        "--stack": options.stack,
        "--deployment": options.deployment,
        "--context": options.context,
    }
    naming = [option for option, value in given.items() if value is not None]
    if len(naming) > 1:
        fail(f"{' and '.join(naming)} both name a stack; give one of them")
    if options.stack is not None:
        return Target(options.stack)
    context = None if options.deployment is not None else contexts.chosen(options.context)
    if context is not None and (
        options.context is not None or not (folder / FOLDER).is_dir()
    ):
        _reach(context, options)
        return Target(context.stack)
    try:
        found = read(find(options.deployment, folder / FOLDER))
    except ManifestError as error:
        report(error.problems)
        fail(
            "say which deployment with --deployment NAME, or name its stack with --stack or --context"
        )
    if context is not None:
        _refuse_another(context, found)
        _reach(context, options)
    region = found.settings.region
    if region is not None and options.region is None:
        choose_region(region)
    return Target(found.stack, found)


def _reach(context: contexts.Context, options: Options) -> None:
    """Use a context's profile, region and endpoint from now on, except for those that the command line chose."""
    choose_aws(
        os.environ,
        profile=context.profile if options.profile is None else None,
        region=context.region if options.region is None else None,
        endpoint_url=context.endpoint_url if options.endpoint_url is None else None,
    )


def _refuse_another(context: contexts.Context, found: Deployment) -> None:
    """End the command where the folder has another deployment than the current context: either may be meant."""
    regions = {context.region, found.settings.region} - {None}
    if context.stack != found.stack or len(regions) > 1:
        fail(
            f"the current context is the stack {_place(context.stack, context.region)}, and {found.path} is"
            f" {_place(found.stack, found.settings.region)}: say --context NAME or --deployment {found.name}"
        )


def _place(stack: str, region: str | None) -> str:
    return stack if region is None else f"{stack} in {region}"
