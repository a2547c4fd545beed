"""Launch templates in EC2, found by our owner tag."""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from reservoir import names
from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.pacing import Pacer
from reservoir.core.capacity.token_bucket import MUTATING_CALLS
from reservoir.core.launching.launch_template import (
    TEMPLATE_GRACE,
    LaunchTemplate,
    StoredTemplate,
)
from reservoir.ports.errors import AlreadyExistsError, NotFoundError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_PAGE: Final = 200  # DescribeLaunchTemplates' most
# No collector deletes a template that is younger than its grace, so a template that was just made stays for longer than
# it is remembered. An older one may be deleted any time; EC2's refusal then has it made again.
_BELIEVED_FOR: Final = TEMPLATE_GRACE / 2


class Ec2LaunchTemplates:
    """Implements ``LaunchTemplateStore``.

    A warm process remembers for a while which templates it made, and does not ask EC2.
    """

    def __init__(
        self, client: "EC2Client", deployment: str, clock: Clock, pacer: Pacer | None = None
    ) -> None:
        self._client = client
        self._deployment = deployment
        self._clock = clock
        self._pacer = pacer or Pacer(MUTATING_CALLS)
        self._known_until: dict[str, datetime] = {}

    def ensure(self, template: LaunchTemplate) -> None:
        """Create the template unless it is known to exist."""
        now = self._clock.now()
        known_until = self._known_until.get(template.name)
        if known_until is not None and now < known_until:
            return
        self._pacer.wait()
        try:
            with map_client_errors():
                self._client.create_launch_template(**create_template_parameters(template))
        except AlreadyExistsError:
            pass  # the name is the hash of the content, so it is the same template
        self._known_until[template.name] = now + _BELIEVED_FOR

    def forget(self, names: Collection[str]) -> None:
        """Ask EC2 again about these templates."""
        for name in names:
            self._known_until.pop(name, None)

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
                        StoredTemplate(
                            item["LaunchTemplateName"],
                            item["CreateTime"],
                            tags,
                            item["LaunchTemplateId"],
                        )
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
                pass  # another process was faster
        self.forget(names)


def create_template_parameters(template: LaunchTemplate) -> dict[str, Any]:
    """Return the parameters of CreateLaunchTemplate, in EC2's shape."""
    tags = [{"Key": key, "Value": value} for key, value in sorted(template.tags.items())]
    return {
        "LaunchTemplateName": template.name,
        "LaunchTemplateData": dict(template.data),
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
    }
