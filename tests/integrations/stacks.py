"""The templates of integrations, deployed as their READMEs say."""

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import botocore

from infra.naming import function_name
from lab.embedded.reservoir import ROOT
from lab.story.world import World
from reservoir.names import EVENT_BUS, Function, Queue

PACKAGES: Final = (
    *(
        "annotated_types",
        "botocore",
        "dateutil",
        "jmespath",
        "pydantic",
        "pydantic_core",
        "six.py",
    ),
    *("typing_extensions.py", "typing_inspection", "urllib3", "yaml"),
)
SERVICES: Final = frozenset({"dynamodb", "sqs", "ssm", "stepfunctions"})
# Name of the stack, of the integration, and parameters of its own; returns outputs and physical ids.
Deploy = Callable[[str, str, Mapping[str, str]], Mapping[str, str]]


def deployer(world: World) -> Deploy:
    """Upload the code and its packages once; return how a stack is made of them."""
    s3, functions = world.aws.client("s3"), world.aws.client("lambda")
    s3.create_bucket(Bucket="code")
    s3.put_object(
        Bucket="code",
        Key="code.zip",
        Body=code(ROOT / "integrations", ROOT / "shared" / "reservoir"),
    )
    ours = functions.get_function_configuration(
        FunctionName=function_name(
            world.reservoir.outputs["ReservoirDeployment"], Function.INTAKE
        )
    )
    queue_url = world.output(Queue.DEMAND.value)
    queue = world.aws.client("sqs").get_queue_attributes(
        QueueUrl=queue_url, AttributeNames=["QueueArn"]
    )
    layer = functions.publish_layer_version(
        LayerName="packages", Content={"ZipFile": packages()}
    )
    common = {
        "BusName": world.output(EVENT_BUS),
        "DemandQueueUrl": queue_url,
        "DemandQueueArn": queue["Attributes"]["QueueArn"],
        "CodeBucket": "code",
        "CodeKey": "code.zip",
        "LayerArn": layer["LayerVersionArn"],
        "Runtime": ours["Runtime"],
    }

    def deploy(
        stack: str, integration: str, parameters: Mapping[str, str]
    ) -> Mapping[str, str]:
        cloudformation = world.aws.client("cloudformation")
        cloudformation.create_stack(
            StackName=stack,
            TemplateBody=(
                ROOT / "integrations" / integration / "template.yaml"
            ).read_text(),
            Parameters=[
                {"ParameterKey": name, "ParameterValue": value}
                for name, value in {**common, **parameters}.items()
            ],
            Capabilities=["CAPABILITY_IAM"],
        )

        def status() -> str:
            return str(
                cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
            )

        world.until(f"{stack} is made", lambda _: not status().endswith("_IN_PROGRESS"))
        assert status() == "CREATE_COMPLETE"
        (made,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
        resources = cloudformation.describe_stack_resources(StackName=stack)[
            "StackResources"
        ]
        return {it["LogicalResourceId"]: it["PhysicalResourceId"] for it in resources} | {
            it["OutputKey"]: it["OutputValue"] for it in made["Outputs"]
        }

    return deploy


def code(*packages: Path) -> bytes:
    """Return a zip of packages of the repository."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for package in packages:
            for path in sorted(package.rglob("*.py")):
                archive.write(path, path.relative_to(package.parent))
    return packed.getvalue()


def packages() -> bytes:
    """Return a zip of the packages that the functions need; of botocore's services those that they call."""
    site, packed = Path(botocore.__file__).parents[1], io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in PACKAGES:
            root = site / name
            for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                inside = path.relative_to(site).parts
                is_other = (
                    inside[:2] == ("botocore", "data")
                    and len(inside) > 3
                    and inside[2] not in SERVICES
                )
                if path.is_file() and path.suffix != ".pyc" and not is_other:
                    archive.write(path, Path("python", *inside))
    return packed.getvalue()
