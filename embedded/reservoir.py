"""Reservoir itself on an embedded AWS: synthesised and deployed as for an account, with the network that nodes need.

The demo and the tests of the deployed stack start here. Nothing in the product knows that it runs on an emulator: the
template is ``app.py``'s, the assets are the built ones, and what is called is AWS's public API.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from botocore.config import Config

from embedded.client import EmbeddedAws
from embedded.deploy import deploy
from infra.naming import DEPLOYMENT_CONTEXT, EMBEDDED_CONTEXT, function_name
from shared.names import DEFAULT_STACK, DEPLOYMENT, Function, output_name

ROOT: Final = Path(__file__).resolve().parent.parent
NETWORK_TAG: Final = {"Key": "network", "Value": "private"}  # what the examples' classes select
NODE_ROLE: Final = "reservoir-node"
IMAGE_PARAMETER: Final = "/images/node/{}"  # as teams publish their own images; what examples/demo selects
_TRUST_EC2: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
Settings = Mapping[str, object]  # as in a settings file
# Nothing outlives the embedded AWS, and examples/demo names the role.
EPHEMERAL: Final = {
    "stack": DEFAULT_STACK,
    "retain": False,
    "terminationProtection": False,
    "instanceRole": NODE_ROLE,
}
# Assets are uploaded from where they were built: copying the thousands of files of a layer takes longer than all else
# in a synthesis.
LEAVE_ASSETS: Final = {"aws:cdk:disable-asset-staging": True}
# The first reading of all instance types takes longer than a client usually waits.
PATIENT: Final = Config(read_timeout=600, retries={"total_max_attempts": 1})
Report = Callable[[str], None]


class DeployedReservoir:
    """An embedded AWS with Reservoir deployed, from ``start`` (or ``with``) to ``stop``.

    Parameters
    ----------
    report
        Called with a line of progress before each step.
    settings
        What its settings file says beside what suits an embedded run, e.g. ``{"spotPoolSharePercent": 50}``.
    assembly
        A folder that :func:`synthesise` has filled from the same settings; without one it is made anew.
    """

    def __init__(self, report: Report, settings: Settings | None = None, assembly: Path | None = None) -> None:
        self.aws = EmbeddedAws()
        self.outputs: Mapping[str, str] = {}
        self._report = report
        self._settings = settings or {}
        self._assembly = assembly

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Synthesise, start AWS, make the network, deploy."""
        if self._assembly is not None:
            self._report("starting the embedded AWS")
            self.aws.start()
            self._deploy(self._assembly)
            return
        with tempfile.TemporaryDirectory(prefix="cdk-out-") as folder:
            self._report("synthesising the stack")
            synthesis = _start_synthesis(Path(folder), self._settings)
            try:
                self._report("starting the embedded AWS")
                self.aws.start()
            finally:
                failure = _failure_of(synthesis)
            if failure is not None:
                self.stop()
                raise RuntimeError(failure)
            self._deploy(Path(folder))

    def _deploy(self, assembly: Path) -> None:
        self._report("making subnets, a security group, an image and a node role")
        make_network(self.aws)
        self._report("deploying")
        (self.outputs,) = deploy(assembly, self.aws.client, self._report).values()

    def invoke(self, function: Function) -> None:
        """Call a function as its schedule would; what it writes when it fails is in the error."""
        name = function_name(self.outputs[output_name(DEPLOYMENT)], function)
        answer = self.aws.client("lambda", config=PATIENT).invoke(FunctionName=name, Payload=b"{}")
        if "FunctionError" in answer:
            raise RuntimeError(f"{name} failed: {answer['Payload'].read().decode()}\n{self.aws.function_log(name)}")

    def environment(self) -> dict[str, str]:
        """Return the environment in which the command line speaks to this deployment."""
        return {**os.environ, **self.aws.environment(), "RESERVOIR_STACK": self.outputs[output_name(DEPLOYMENT)]}

    def stop(self) -> None:
        """End everything."""
        self.aws.stop()


def synthesise(folder: Path, settings: Settings | None = None) -> None:
    """Write the assembly that is deployed here, with the settings given on top of what suits an embedded run."""
    failure = _failure_of(_start_synthesis(folder, settings or {}))
    if failure is not None:
        raise RuntimeError(failure)


def _failure_of(synthesis: "subprocess.Popen[str]") -> str | None:
    """Wait for the end; return what was written if that was a failure."""
    log, _ = synthesis.communicate()
    return f"app.py failed:\n{log}" if synthesis.returncode else None


def write_settings(folder: Path, settings: Settings) -> Path:
    """Write the settings file of a deployment that lives as long as its embedded AWS."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "embedded.yaml"
    path.write_text(json.dumps({**EPHEMERAL, **settings}), encoding="utf-8")  # JSON is YAML
    return path


def _start_synthesis(folder: Path, settings: Settings) -> "subprocess.Popen[str]":
    """Start ``app.py``; a process of its own, because the CDK's runtime is slow to start and not needed afterwards."""
    path = write_settings(folder, settings)
    context = {DEPLOYMENT_CONTEXT: str(path), EMBEDDED_CONTEXT: "true", **LEAVE_ASSETS}
    environment = {**os.environ, "CDK_OUTDIR": str(folder), "CDK_CONTEXT_JSON": json.dumps(context)}
    return subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**environment, "CDK_VALIDATION": "false"},  # the validator takes ten seconds; a test runs it
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def make_network(aws: EmbeddedAws) -> None:
    """Tag the default subnets and security group, publish an image, and make a role that nodes may use."""
    ec2, iam, ssm = aws.client("ec2"), aws.client("iam"), aws.client("ssm")
    subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]]
    group = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["default"]}])["SecurityGroups"][0]
    ec2.create_tags(Resources=[*subnets, group["GroupId"]], Tags=[NETWORK_TAG])
    for architecture in ("x86_64", "arm64"):
        ssm.put_parameter(
            Name=IMAGE_PARAMETER.format(architecture), Value=_image(ec2, architecture), Type="String", Overwrite=True
        )
    iam.create_role(RoleName=NODE_ROLE, AssumeRolePolicyDocument=json.dumps(_TRUST_EC2))
    iam.create_instance_profile(InstanceProfileName=NODE_ROLE)
    iam.add_role_to_instance_profile(InstanceProfileName=NODE_ROLE, RoleName=NODE_ROLE)


def _image(ec2: Any, architecture: str) -> str:
    filters = [{"Name": "architecture", "Values": [architecture]}]
    found = ec2.describe_images(Filters=filters)["Images"]
    if found:
        return str(found[0]["ImageId"])
    return str(ec2.register_image(Name=f"al2023-{architecture}", Architecture=architecture)["ImageId"])
