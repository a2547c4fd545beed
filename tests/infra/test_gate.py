"""The whole validation: the CDK's own rules, which fail every synthesis, and cdk-nag's AwsSolutions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import App, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks

from infra.app import ROOT
from infra.naming import DEPLOYMENT_CONTEXT
from tests.infra.synthesis import template_app


def app_with_nag(folder: Path) -> App:
    app = template_app(folder, is_validated=True)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def test_all_validations_pass(tmp_path: Path) -> None:
    app_with_nag(tmp_path).synth()


def test_an_unexplained_wildcard_is_stopped(tmp_path: Path) -> None:
    app = app_with_nag(tmp_path)
    role = (
        app.node.find_child("Reservoir").node.find_child("Intake").node.find_child("Role")
    )
    assert isinstance(role, iam.Role)
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["sqs:SendMessage"], resources=["arn:aws:sqs:us-east-1:*:any"]
        )
    )
    with pytest.raises(RuntimeError, match="wildcard permissions"):
        app.synth()


def test_a_template_that_cloudformation_would_refuse_is_stopped(tmp_path: Path) -> None:
    app = template_app(tmp_path, is_validated=True)
    function = (
        app.node.find_child("Reservoir")
        .node.find_child("Intake")
        .node.find_child("Function")
        .node.default_child
    )
    assert isinstance(function, lambda_.CfnFunction)
    function.add_property_override("Timeout", "soon")
    with pytest.raises(RuntimeError, match="'soon' is not of type 'integer'"):
        app.synth()


def run_app(folder: Path, deployment: str) -> subprocess.CompletedProcess[str]:
    """Run ``app.py`` as the CDK's command line starts it, in an environment that knows nothing of AWS."""
    environment = {
        "HOME": str(Path.home()),  # jsii keeps its unpacked modules there
        "PATH": "/nowhere",
        "CDK_OUTDIR": str(folder / "out"),
        "CDK_CONTEXT_JSON": json.dumps({DEPLOYMENT_CONTEXT: deployment}),
        "CDK_VALIDATION": "false",  # the tests above have it on; it costs most of the time
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    return subprocess.run(  # noqa: S603 - our own entry point
        [sys.executable, str(ROOT / "app.py")],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_wrong_settings_stop_the_synthesis_with_a_sentence_and_no_traceback(
    tmp_path: Path,
) -> None:
    path = tmp_path / "production.yaml"
    path.write_text("retian: true")
    done = run_app(tmp_path, str(path))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert (
        f"{path}:1: error: retian: is not a known field (did you mean retain?)"
        in done.stderr
    )
    assert not list((tmp_path / "out").glob("*.template.json"))


def test_synthesis_needs_no_account_no_network_and_no_node(tmp_path: Path) -> None:
    done = run_app(tmp_path, "examples/deployments/production.yaml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "Reservoir.template.json").is_file()
    files = json.loads((tmp_path / "out" / "Reservoir.assets.json").read_text())[
        "files"
    ].values()
    assert [
        file["source"]["path"]
        for file in files
        if not (tmp_path / "out" / file["source"]["path"]).exists()
    ] == []
