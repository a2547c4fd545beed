"""What the CDK's command line does for a deployment, on the embedded AWS, without compressing the layer each time.

The app is synthesised in this process, where the CDK's runtime starts once for all deployments of a story.
"""

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.app import build_app
from infra.naming import (
    CREATING_CONTEXT,
    DEPLOYMENT_CONTEXT,
    EMBEDDED_CONTEXT,
    OLDER_INDEXES_CONTEXT,
)
from lab.embedded.client import EmbeddedAws
from lab.embedded.deploy import deploy
from lab.embedded.reservoir import LEAVE_ASSETS
from reservoir.deployment.deployment import read

_DELETE_LIMIT_S = 600.0


@dataclass
class EmbeddedCdk:
    """Implements ``reservoir.cli.deployment.cdk.Cdk``; ``calls`` are the commands run, with their arguments."""

    aws: EmbeddedAws
    deployment: Path
    calls: list[tuple[str, ...]] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)  # of the last deployment

    def __call__(self, command: str, *arguments: str) -> None:
        self.calls.append((command, *arguments))
        match command:
            case "deploy":
                given = dict(
                    argument.split("=", 1) for argument in arguments if "=" in argument
                )
                self._deploy(
                    {
                        name: given[name]
                        for name in (CREATING_CONTEXT, OLDER_INDEXES_CONTEXT)
                        if name in given
                    }
                )
            case "destroy":
                self._destroy()

    def _deploy(self, given: Mapping[str, str]) -> None:
        with tempfile.TemporaryDirectory(prefix="cdk-out-") as folder:
            context = {
                DEPLOYMENT_CONTEXT: str(self.deployment),
                EMBEDDED_CONTEXT: True,
                **given,
                **LEAVE_ASSETS,
            }
            build_app(outdir=Path(folder), context=context, is_validated=False).synth()
            (self.outputs,) = deploy(Path(folder), self.aws.client, print).values()

    def _destroy(self) -> None:
        stack = read(self.deployment).stack
        delete_stack(self.aws, stack)


def delete_stack(aws: EmbeddedAws, stack: str) -> None:
    """Delete a stack as anybody with the permission can, and wait for the end."""
    cloudformation = aws.client("cloudformation")
    (found,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    cloudformation.delete_stack(StackName=stack)
    limit = time.monotonic() + _DELETE_LIMIT_S
    while True:
        (deleting,) = cloudformation.describe_stacks(StackName=found["StackId"])["Stacks"]
        if deleting["StackStatus"] == "DELETE_COMPLETE":
            return
        failed = deleting["StackStatus"] == "DELETE_FAILED" or time.monotonic() > limit
        assert not failed, json.dumps(
            cloudformation.describe_stack_events(StackName=stack), default=str, indent=1
        )
        time.sleep(0.2)
