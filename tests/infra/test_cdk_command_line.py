"""The pinned CDK command line must read what the pinned library writes, and deploy it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from embedded.client import EmbeddedAws
from infra import NODE
from infra.app import ROOT
from shared import names
from shared.names import DEFAULT_STACK, output_name
from tests.infra.reading import of_type

CDK = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"


@pytest.fixture
def light_assembly(embedded_assembly: Path, tmp_path: Path) -> Path:
    """The assembly with a stub for a layer, which the command line would compress: this test starts no function."""
    assembly, stub = tmp_path / "assembly", tmp_path / "stub"
    shutil.copytree(embedded_assembly, assembly)
    stub.mkdir()
    (stub / "stub.txt").write_text("the layer")
    template = json.loads((assembly / f"{DEFAULT_STACK}.template.json").read_text())
    (layer,) = of_type(template["Resources"], "AWS::Lambda::LayerVersion").values()
    manifest = assembly / f"{DEFAULT_STACK}.assets.json"
    assets = json.loads(manifest.read_text())
    assets["files"][layer["Content"]["S3Key"].removesuffix(".zip")]["source"]["path"] = str(stub)
    manifest.write_text(json.dumps(assets))
    return assembly


@pytest.mark.embedded
def test_the_command_line_bootstraps_and_deploys(
    embedded_aws: EmbeddedAws, light_assembly: Path, tmp_path: Path
) -> None:
    environment = {
        "HOME": str(tmp_path),
        "PATH": str(NODE.parent),
        **embedded_aws.environment(),
        "NODE_EXTRA_CA_CERTS": str(embedded_aws.ca_bundle),
        "CI": "true",
    }

    def cdk(*arguments: str) -> None:
        done = subprocess.run(  # noqa: S603 - the locked command line
            [str(NODE), str(CDK), *arguments, "--app", str(light_assembly), "--output", str(tmp_path / "out")],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    cdk("bootstrap", f"aws://{embedded_aws.account_id}/{embedded_aws.region}")
    cdk("deploy", DEFAULT_STACK, "--require-approval", "never")
    (stack,) = embedded_aws.client("cloudformation").describe_stacks(StackName=DEFAULT_STACK)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    assert outputs[output_name(names.DEPLOYMENT)] == DEFAULT_STACK
