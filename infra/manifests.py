"""The policy of a deployment: applied at deployment by the function that ``reservoir apply`` shares its code with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from reservoir import names
from reservoir.deployment.manifests_folder import manifest_files

# The function has a minute. One that cannot even start answers nobody, and CloudFormation would wait an hour for it.
SERVICE_TIMEOUT_MIN: Final = 5


def read_manifests(folder: Path) -> list[dict[str, str]]:
    """Return the folder's YAML and JSON files, by name, as the apply function takes them."""
    return [
        {
            names.MANIFEST_NAME: path.relative_to(folder).as_posix(),
            names.MANIFEST_TEXT: path.read_text(encoding="utf-8"),
        }
        for path in manifest_files(folder)
    ]


class AppliedPolicy(Construct):
    """A custom resource; its properties change with the files, so a deployment applies every change."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        folder: Path | None,
        removed: Sequence[str],
        apply: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct)
        CustomResource(
            self,
            "Resource",
            service_token=apply.function_arn,
            resource_type="Custom::ReservoirManifests",
            service_timeout=Duration.minutes(SERVICE_TIMEOUT_MIN),
            properties={
                names.MANIFESTS_PROPERTY: [] if folder is None else read_manifests(folder),
                names.REMOVED_PROPERTY: list(removed),
            },
        )
