"""What a first launch rests on, with the product's requests and the launch role's permissions: the costliest first.

These run first (their module's name does it): on an account, ten minutes show whether anything will ever be launched.
"""

import secrets
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from lab.worlds.cloud import launched
from lab.worlds.launch_world import node_class
from reservoir import names
from reservoir.adapters.ec2.fleet import create_fleet_parameters
from reservoir.adapters.ec2.launch_templates import create_template_parameters
from reservoir.core.launching.launch_request import (
    LaunchConfig,
    LaunchOverride,
    LaunchRequest,
)
from reservoir.core.launching.launch_template import LaunchTemplate, launch_template
from reservoir.core.model.instance_type import CapacityType
from tests.embedded.ec2.contract.launch_role import DEPLOYMENT, dry_run
from tests.embedded.ec2.contract.sites import TAG, Site

TAGS = {
    names.OWNER_TAG: DEPLOYMENT,
    TAG["Key"]: TAG["Value"],
    "karpenter.sh/nodepool": "contract",
}
# What EC2 may say of a template that is not there; the product makes it again after each of them.
GONE = {
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "UnauthorizedOperation",
}


def template_of(site: Site) -> LaunchTemplate:
    """Return the product's template for the account's image, with the nodes' role, in the subnet's own group."""
    return template_with(site, site.node_role)


def template_with(site: Site, profile: str) -> LaunchTemplate:
    built = launch_template(
        node_class(instance_profile=profile), site.image(), TAGS[names.OWNER_TAG], None
    )
    data = {
        key: value
        for key, value in built.data.items()
        if key not in ("SecurityGroupIds", "NetworkInterfaces")
    }
    name = f"reservoir-contract-{secrets.token_hex(8)}"
    return replace(built, name=name, data=data, tags={**built.tags, **TAGS})


def make(site: Site, template: LaunchTemplate) -> None:
    site.launcher.create_launch_template(**create_template_parameters(template))
    site.undo.append(
        lambda: site.ec2.delete_launch_template(LaunchTemplateName=template.name)
    )


def request_of(site: Site, template: LaunchTemplate) -> LaunchRequest:
    """Return what the product asks CreateFleet for: one instance on demand, of two types in one subnet."""
    filters = [
        {"Name": "default-for-az", "Values": ["true"]},
        {"Name": "availability-zone", "Values": [site.zone()]},
    ]
    (subnet,) = site.ec2.describe_subnets(Filters=filters)["Subnets"]
    overrides = [
        LaunchOverride(
            kind,
            subnet["AvailabilityZone"],
            subnet["AvailabilityZoneId"],
            subnet["SubnetId"],
            priority,
        )
        for priority, kind in enumerate((site.small, site.large))
    ]
    config = LaunchConfig(template, tuple(overrides))
    return LaunchRequest("contract", (config,), 1, CapacityType.ON_DEMAND, TAGS)


def launch(site: Site, template: LaunchTemplate) -> dict[str, Any]:
    """Ask for it as the product does, and have it ended with the test."""
    parameters = create_fleet_parameters(request_of(site, template), secrets.token_hex(16))
    answer: dict[str, Any] = site.launcher.create_fleet(**parameters)
    ids = launched(answer)
    if ids:
        site.undo.append(lambda: site.ec2.terminate_instances(InstanceIds=ids))
    return answer


def test_the_products_request_launches_and_tags_all_that_it_creates(
    guarded_site: Site,
) -> None:
    """Where EC2 tagged no interface, or refused the kind, no launch would ever be allowed."""
    site = guarded_site
    template = template_of(site)
    make(site, template)
    answer = launch(site, template)
    assert answer.get("Errors", []) == []
    (instance_id,) = launched(answer)
    site.until(lambda: bool(site.instances([instance_id])))
    (instance,) = site.instances([instance_id])
    assert TAGS.items() <= tags_of(instance["Tags"]).items()
    attached = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    site.until(lambda: bool(site.ec2.describe_volumes(Filters=attached)["Volumes"]))
    (volume,) = site.ec2.describe_volumes(Filters=attached)["Volumes"]
    assert TAGS.items() <= tags_of(volume["Tags"]).items()
    # the emulation shows no interfaces of instances
    for interface in site.ec2.describe_network_interfaces(Filters=attached)[
        "NetworkInterfaces"
    ]:
        assert TAGS.items() <= tags_of(interface["TagSet"]).items()
    assert instance["MetadataOptions"]["InstanceMetadataTags"] == "disabled"
    assert instance["IamInstanceProfile"]["Arn"].endswith(f"/{site.node_role}")


def test_a_template_that_was_just_made_can_be_launched_from_soon(
    guarded_site: Site,
) -> None:
    site = guarded_site
    template = template_of(site)
    make(site, template)
    asked = [launch(site, template)]

    def runs() -> bool:
        if not launched(asked[-1]):
            asked.append(launch(site, template))
        return bool(launched(asked[-1]))

    site.until(runs)


def test_a_template_that_is_gone_is_called_what_the_product_takes_for_gone(
    guarded_site: Site,
) -> None:
    site = guarded_site
    template = template_of(site)
    make(site, template)
    site.ec2.delete_launch_template(LaunchTemplateName=template.name)
    codes = refusals(site, template)
    assert codes <= GONE
    assert codes


def test_the_role_hands_no_other_role_to_instances(guarded_site: Site) -> None:
    """``iam:PassRole`` is asked of whoever launches, also where the launch is a fleet's and the role a template's."""
    site = guarded_site
    template = template_with(site, site.other_role)
    make(site, template)
    assert refusals(site, template) == {"UnauthorizedOperation"}


def refusals(site: Site, template: LaunchTemplate) -> set[str]:
    """Return the codes with which a launch is refused."""
    try:
        answer = launch(site, template)
    except ClientError as error:
        return {error.response["Error"]["Code"]}
    return {each["ErrorCode"] for each in answer["Errors"]}


def test_the_role_makes_nothing_for_anybody_else(guarded_site: Site) -> None:
    assert dry_run(guarded_site.launcher, {}) == "UnauthorizedOperation"
    others = {names.OWNER_TAG: "Somebody"}
    assert dry_run(guarded_site.launcher, others) == "UnauthorizedOperation"


def tags_of(listed: list[dict[str, str]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in listed}
