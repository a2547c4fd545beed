"""The locked CDK command line."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from infra import NODE
from infra.naming import DEPLOYMENT_CONTEXT

ROOT: Final = Path(__file__).resolve().parents[4]
_CDK: Final = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"


class CdkError(Exception):
    """The CDK's command line failed; it has said why."""


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
            [str(NODE), str(_CDK), command, *chosen, *arguments], cwd=ROOT, env=environment, check=False
        )
        if done.returncode:
            raise CdkError(f"cdk {command} ended with {done.returncode}")
