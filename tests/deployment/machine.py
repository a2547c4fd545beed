"""A person's machine, with credentials of an embedded account and a settings file.

What the embedded AWS alone wants (functions built for this machine, nothing staged) is said where the CDK lets a
machine have its say, so that commands are those of docs/deploying.md.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infra.app import ROOT
from infra.naming import EMBEDDED_CONTEXT
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import LEAVE_ASSETS

INSTALLED: Final = ("--old-file=setup", "--old-file=node_modules/.package-lock.json")


class Machine:
    """A person's machine with credentials of an account, and a settings file without policy."""

    def __init__(self, aws: EmbeddedAws, home: Path) -> None:
        self.aws, self.home, self.path = aws, home, home / "production.yaml"
        self.credentials: Mapping[str, str] = {}  # none but those of an administrator
        self.settings()
        own = {
            "context": {EMBEDDED_CONTEXT: "true", **LEAVE_ASSETS},
            "output": str(home / "cdk.out"),
            "requireApproval": "never",
            "notices": False,
        }
        (home / ".cdk.json").write_text(json.dumps(own))

    def settings(self, **settings: Any) -> None:
        """Write the settings file."""
        self.path.write_text(json.dumps({"stack": "Reservoir", **settings}))

    def make(
        self, target: str, arguments: str = "", *, typed: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """``make target DEPLOYMENT=… ARGS=…``, with what is typed when it asks; both outputs are in one."""
        chosen = (f"DEPLOYMENT={self.path}", f"ARGS={arguments}")
        return self.run("make", *INSTALLED, target, *chosen, folder=ROOT, typed=typed)

    def run(
        self, *command: str, folder: Path, typed: str = "", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command, with what is typed when it asks; both outputs are in one."""
        return subprocess.run(  # noqa: S603 - our own commands
            command,
            cwd=folder,
            env={
                "PATH": os.defpath,
                "HOME": str(self.home),
                "CI": "true",
                "CDK_VALIDATION": "false",  # a test of its own runs the validator
                "NODE_EXTRA_CA_CERTS": str(self.aws.ca_bundle),
                **self.aws.environment(),
                **self.credentials,
                **variables,
            },
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def stack(self) -> dict[str, Any]:
        """The stack, as CloudFormation describes it."""
        (found,) = self.aws.client("cloudformation").describe_stacks(StackName="Reservoir")[
            "Stacks"
        ]
        return dict(found)
