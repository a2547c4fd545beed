"""Deploy a synthesised CDK app without the CDK's command line: ``python -m lab.embedded.deploy cdk.out``.

Uses public AWS APIs only and hands the templates over as they are, so what is deployed is what was synthesised. It does
what ``cdk bootstrap`` and ``cdk deploy`` do for an account nobody else uses: the assets' bucket, the assets, the stacks
in their order. The endpoint and the credentials come from the environment, as for every AWS tool.
"""

import argparse
import io
import json
import platform
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.exceptions import ClientError

BOOTSTRAP_VERSION: Final = "30"
CAPABILITIES: Final = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
# Stack operations are watched this often; at 0.2 s a deployment of a second is not rounded up to two.
POLL_S: Final = 0.2
LIMIT_S: Final = 300.0
FAILED_CREATES: Final = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED"})

Clients = Callable[[str], Any]  # a boto3 client for a service's name
Report = Callable[[str], None]
Outputs = dict[str, dict[str, str]]  # by stack name, by output key


class DeploymentError(Exception):
    """A stack was not created or updated; the text says which resources failed, and why."""


class ForeignLayerError(DeploymentError):
    """A layer was built for another Python or processor than this one, on which every function would die."""


@dataclass(frozen=True, slots=True)
class _Stack:
    name: str
    template: Path
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    is_protected: bool  # from deletion


def deploy(cdk_out: Path, clients: Clients, report: Report) -> Outputs:
    """Deploy every stack of the cloud assembly in ``cdk_out``; return the stacks' outputs.

    Raises
    ------
    ForeignLayerError
        When a layer cannot run here; nothing has been changed then.
    DeploymentError
        When a stack does not reach a complete state.
    """
    manifest = json.loads((cdk_out / "manifest.json").read_text())
    for stack in _stacks(cdk_out, manifest):
        _refuse_foreign_layers(stack)
    account_id = clients("sts").get_caller_identity()["Account"]
    region = clients("sts").meta.region_name
    _write_bootstrap_versions(clients("ssm"), _stacks(cdk_out, manifest))
    locations: dict[str, str] = {}
    for assets in _asset_manifests(cdk_out, manifest):
        locations |= _upload(
            cdk_out,
            assets,
            clients("s3"),
            {"AccountId": account_id, "Region": region},
            report,
        )
    return {
        stack.name: _deploy_stack(stack, locations, clients("cloudformation"), report)
        for stack in _stacks(cdk_out, manifest)
    }


def _artifacts(
    manifest: Mapping[str, Any], kind: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the artifacts of a kind, each after those it depends on."""
    artifacts, seen = manifest["artifacts"], set[str]()

    def visit(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if name in seen:
            return
        seen.add(name)
        for dependency in artifacts[name].get("dependencies", ()):
            yield from visit(dependency)
        if artifacts[name]["type"] == kind:
            yield name, artifacts[name]

    for name in artifacts:
        yield from visit(name)


def _asset_manifests(
    cdk_out: Path, manifest: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    for _, artifact in _artifacts(manifest, "cdk:asset-manifest"):
        yield json.loads((cdk_out / artifact["properties"]["file"]).read_text())


def _stacks(cdk_out: Path, manifest: Mapping[str, Any]) -> Iterator[_Stack]:
    for name, artifact in _artifacts(manifest, "aws:cloudformation:stack"):
        properties = artifact["properties"]
        yield _Stack(
            name=properties.get("stackName", name),
            template=cdk_out / properties["templateFile"],
            parameters=properties.get("parameters", {}),
            tags=properties.get("tags", {}),
            is_protected=properties.get("terminationProtection", False),
        )


def _refuse_foreign_layers(stack: _Stack) -> None:
    """Refuse layers that say that they are for something else: the embedded AWS runs functions on its own Python."""
    here = {
        "CompatibleRuntimes": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "CompatibleArchitectures": "arm64"
        if platform.machine() in ("aarch64", "arm64")
        else "x86_64",
    }
    for name, resource in json.loads(stack.template.read_text())["Resources"].items():
        if resource["Type"] != "AWS::Lambda::LayerVersion":
            continue
        for property_name, ours in here.items():
            compatible = resource["Properties"].get(property_name, [ours])
            if ours not in compatible:
                raise ForeignLayerError(
                    f"{stack.name}: the layer {name} is for {', '.join(compatible)}, and functions run on {ours} here."
                    ' Synthesise for this machine, CDK_CONTEXT_JSON=\'{"embedded": "true"}\' python app.py, and deploy'
                    " again; `make play` does all of it."
                )


def _write_bootstrap_versions(ssm: Any, stacks: Iterable[_Stack]) -> None:
    """Write what a bootstrap leaves, of each qualifier that a stack asks for: its version, as the template names it."""
    for stack in stacks:
        parameters = json.loads(stack.template.read_text()).get("Parameters", {})
        name = parameters.get("BootstrapVersion", {}).get(
            "Default", "/cdk-bootstrap/hnb659fds/version"
        )
        ssm.put_parameter(Name=name, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True)


def _upload(
    cdk_out: Path,
    assets: Mapping[str, Any],
    s3: Any,
    place: Mapping[str, str],
    report: Report,
) -> dict[str, str]:
    """Upload the files of an asset manifest; return the object URL of each uploaded path."""
    buckets = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    locations = {}
    for asset in assets["files"].values():
        path = cdk_out / asset["source"]["path"]
        content: bytes | None = None
        for destination in asset["destinations"].values():
            bucket = _substitute(destination["bucketName"], place)
            key = _substitute(destination["objectKey"], place)
            if bucket not in buckets:
                s3.create_bucket(Bucket=bucket)
                buckets.add(bucket)
            if not _exists(s3, bucket, key):
                content = content or (
                    _zipped(path)
                    if asset["source"]["packaging"] == "zip"
                    else path.read_bytes()
                )
                s3.put_object(Bucket=bucket, Key=key, Body=content)
                report(
                    f"uploaded {asset.get('displayName', path.name)} ({len(content) / 1e6:.1f} MB)"
                )
            locations[str(path)] = (
                f"https://s3.{place['Region']}.amazonaws.com/{bucket}/{key}"
            )
    return locations


def _substitute(text: str, place: Mapping[str, str]) -> str:
    for name, value in {**place, "Partition": "aws"}.items():
        text = text.replace(f"${{AWS::{name}}}", value)
    return text


def _exists(s3: Any, bucket: str, key: str) -> bool:
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True


def _zipped(folder: Path) -> bytes:
    content = io.BytesIO()
    # Stored, not deflated: nothing leaves this machine, and deflating a layer takes ten seconds.
    with zipfile.ZipFile(
        content, "w", zipfile.ZIP_STORED, strict_timestamps=False
    ) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return content.getvalue()


def _deploy_stack(
    stack: _Stack, locations: Mapping[str, str], cloudformation: Any, report: Report
) -> dict[str, str]:
    template = json.loads(stack.template.read_text())
    present = _status(cloudformation, stack.name)
    if present in FAILED_CREATES:
        _delete_failed(cloudformation, stack.name)
        present = None
    if present is not None and _is_as_deployed(stack, template, cloudformation):
        _protect(cloudformation, stack)
        report(f"{stack.name}: no changes")
        return _outputs(cloudformation, stack.name)
    request = {
        "StackName": stack.name,
        "TemplateURL": locations[str(stack.template)],
        "Capabilities": CAPABILITIES,
        "Parameters": [
            {"ParameterKey": k, "ParameterValue": v}
            for k, v in sorted(stack.parameters.items())
        ],
        "Tags": [{"Key": k, "Value": v} for k, v in sorted(stack.tags.items())],
    }
    report(
        f"{stack.name}: {'creating' if present is None else 'updating'} {len(template['Resources'])} resources"
    )
    # As the CDK does: a stack is protected before anything of it is made, and stays so if that fails.
    if present is None:
        cloudformation.create_stack(
            **request, EnableTerminationProtection=stack.is_protected
        )
    else:
        _protect(cloudformation, stack)
        cloudformation.update_stack(**request)
    expected = "CREATE_COMPLETE" if present is None else "UPDATE_COMPLETE"
    _wait(cloudformation, stack.name, expected)
    report(f"{stack.name}: {expected}")
    return _outputs(cloudformation, stack.name)


def _protect(cloudformation: Any, stack: _Stack) -> None:
    cloudformation.update_termination_protection(
        StackName=stack.name, EnableTerminationProtection=stack.is_protected
    )


def _delete_failed(cloudformation: Any, name: str) -> None:
    """Delete a stack whose create failed, as the CDK does before it tries again.

    Raises
    ------
    DeploymentError
        CloudFormation does not delete it.
    """
    (failed,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    try:
        cloudformation.delete_stack(StackName=name)
    except ClientError as error:
        raise DeploymentError(str(error)) from error
    deadline = time.monotonic() + LIMIT_S
    status = failed["StackStatus"]
    while status != "DELETE_COMPLETE":
        if time.monotonic() > deadline or status == "DELETE_FAILED":
            raise DeploymentError(f"{name}, whose create failed, is {status}")
        time.sleep(POLL_S)
        (described,) = cloudformation.describe_stacks(StackName=failed["StackId"])["Stacks"]
        status = described["StackStatus"]


def _status(cloudformation: Any, name: str) -> str | None:
    for page in cloudformation.get_paginator("list_stacks").paginate():
        for stack in page["StackSummaries"]:
            if stack["StackName"] == name and stack["StackStatus"] != "DELETE_COMPLETE":
                return str(stack["StackStatus"])
    return None


def _is_as_deployed(stack: _Stack, template: Any, cloudformation: Any) -> bool:
    body = cloudformation.get_template(StackName=stack.name)["TemplateBody"]
    described = cloudformation.describe_stacks(StackName=stack.name)["Stacks"][0]
    parameters = {
        each["ParameterKey"]: each["ParameterValue"]
        for each in described.get("Parameters", ())
    }
    same_parameters = all(
        parameters.get(name) == value for name, value in stack.parameters.items()
    )
    return (
        same_parameters
        and (json.loads(body) if isinstance(body, str) else body) == template
    )


def _wait(cloudformation: Any, name: str, expected: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    status = _status(cloudformation, name)
    while status is not None and (
        status.endswith("_IN_PROGRESS") or status == "REVIEW_IN_PROGRESS"
    ):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
        status = _status(cloudformation, name)
    if status != expected:
        raise DeploymentError(f"{name} is {status}\n{_failures(cloudformation, name)}")


def _failures(cloudformation: Any, name: str) -> str:
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=name)
    events = [event for page in pages for event in page["StackEvents"]]
    return "\n".join(
        f"  {event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', '')}"
        for event in reversed(events)
        if event["ResourceStatus"].endswith("_FAILED")
    )


def _outputs(cloudformation: Any, name: str) -> dict[str, str]:
    described = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    return {
        output["OutputKey"]: output["OutputValue"]
        for output in described.get("Outputs", ())
    }


def main() -> int:
    """Deploy the folder named on the command line; print the outputs as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.embedded.deploy", description=__doc__.splitlines()[0]
    )
    parser.add_argument("cdk_out", type=Path, nargs="?", default=Path("cdk.out"))
    options = parser.parse_args()
    session = boto3.Session()

    def report(line: str) -> None:
        sys.stderr.write(line + "\n")

    def client(service: Any) -> Any:
        return session.client(service)

    try:
        outputs = deploy(options.cdk_out, client, report)
    except DeploymentError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(outputs, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
