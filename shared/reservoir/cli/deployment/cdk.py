"""The locked CDK command line."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from infra import NODE
from infra.naming import DEPLOYMENT_CONTEXT
from reservoir.deployment.settings import DeploymentSettings

ROOT: Final = Path(__file__).resolve().parents[4]
_CDK: Final = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"


class CdkError(Exception):
    """The CDK's command line failed; it has printed the reason."""


class Cdk(Protocol):
    """Runs a command of the CDK on a deployment."""

    def __call__(self, command: str, *arguments: str) -> None:
        """Run it to its end.

        Raises
        ------
        CdkError
            It failed.
        """
        ...


def bootstrap_arguments(settings: DeploymentSettings) -> list[str]:
    """Return the arguments of `cdk bootstrap` that make its roles and bucket follow the account's rules, too."""
    arguments = []
    if settings.bootstrap_qualifier is not None:
        qualifier = settings.bootstrap_qualifier
        # A stack of its own: under the usual name it would take the place of the account's other bootstrap.
        arguments += [
            "--qualifier",
            qualifier,
            "--toolkit-stack-name",
            f"CDKToolkit-{qualifier}",
        ]
    if settings.permissions_boundary is not None:
        arguments += [
            "--custom-permissions-boundary",
            settings.permissions_boundary.partition(":policy/")[2],
        ]
    for key, value in sorted(settings.tags.items()):
        arguments += ["--tags", f"{key}={value}"]
    return arguments


@dataclass(frozen=True, slots=True)
class CdkCommandLine:
    """Implements ``Cdk`` by the command line that ``make`` installs from its lock."""

    deployment: Path

    def __call__(self, command: str, *arguments: str) -> None:
        """Run it; it writes to the terminal and asks there."""
        chosen = ("--context", f"{DEPLOYMENT_CONTEXT}={self.deployment.resolve()}")
        path = f"{Path(sys.executable).parent}:{NODE.parent}:{os.environ.get('PATH', '')}"
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(  # noqa: S603 - the locked command line, without a shell
            [str(NODE), str(_CDK), command, *chosen, *arguments],
            cwd=ROOT,
            env=environment,
            check=False,
        )
        if done.returncode:
            raise CdkError(f"cdk {command} ended with {done.returncode}")
