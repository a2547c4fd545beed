"""Which stack the command line talks to."""

from dataclasses import dataclass
from pathlib import Path

from reservoir.cli.console import fail, report
from reservoir.cli.options import Options, choose_region
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
    if options.stack is not None and options.deployment is not None:
        fail("--stack and --deployment both name a stack; give one of them")
    if options.stack is not None:
        return Target(options.stack)
    try:
        found = read(find(options.deployment, folder / FOLDER))
    except ManifestError as error:
        report(error.problems)
        fail("say which deployment with --deployment NAME, or name its stack with --stack")
    region = found.settings.region
    if region is not None and options.region is None:
        choose_region(region)
    return Target(found.stack, found)
