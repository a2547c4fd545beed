"""Launch templates in EC2, found by our owner tag."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, cast

from shared import names
from shared.adapters.aws_errors import map_client_errors
from shared.adapters.pacing import Pacer
from shared.core.capacity.token_bucket import MUTATING_CALLS
from shared.core.launching.launch_template import LaunchTemplate, StoredTemplate
from shared.ports.errors import AlreadyExistsError, NotFoundError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_PAGE: Final = 200  # DescribeLaunchTemplates' most


class Ec2LaunchTemplates:
    """Implements ``LaunchTemplateStore``. A warm process remembers what it made and asks EC2 only once a template."""

    def __init__(self, client: "EC2Client", deployment: str, pacer: Pacer | None = None) -> None:
        self._client = client
        self._deployment = deployment
        self._pacer = pacer or Pacer(MUTATING_CALLS)
        self._known: set[str] = set()

    def ensure(self, template: LaunchTemplate) -> None:
        """Create the template unless it is known to exist."""
        if template.name in self._known:
            return
        self._pacer.wait()
        try:
            with map_client_errors():
                self._client.create_launch_template(
                    LaunchTemplateName=template.name,
                    LaunchTemplateData=cast("Any", dict(template.data)),
                    TagSpecifications=[
                        {
                            "ResourceType": "launch-template",
                            "Tags": [{"Key": key, "Value": value} for key, value in sorted(template.tags.items())],
                        }
                    ],
                )
        except AlreadyExistsError:
            pass  # the name is the hash of the content, so it is the same template
        self._known.add(template.name)

    def forget(self, names: Collection[str]) -> None:
        """Ask EC2 again about these templates."""
        self._known.difference_update(names)

    def list_owned(self) -> tuple[StoredTemplate, ...]:
        """Return our templates, by name."""
        pages = self._client.get_paginator("describe_launch_templates").paginate(
            Filters=[{"Name": f"tag:{names.OWNER_TAG}", "Values": [self._deployment]}],
            PaginationConfig={"PageSize": _PAGE},
        )
        found = []
        with map_client_errors():
            for page in pages:
                for item in page["LaunchTemplates"]:
                    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}
                    found.append(
                        StoredTemplate(item["LaunchTemplateName"], item["CreateTime"], tags, item["LaunchTemplateId"])
                    )
        return tuple(sorted(found, key=lambda template: template.name))

    def delete(self, names: Collection[str]) -> None:
        """Delete templates one by one (EC2 has no bulk call)."""
        for name in sorted(names):
            self._pacer.wait()
            try:
                with map_client_errors():
                    self._client.delete_launch_template(LaunchTemplateName=name)
            except NotFoundError:
                pass  # somebody was faster
        self.forget(names)
