"""Launch templates: versions, defaults, deletion. moto's are not used because its listing silently stops after 15."""

import re
from datetime import timedelta
from typing import Any

from lab.embedded.ec2.account.state import LaunchTemplate, LaunchTemplateVersion
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.api.tags import from_specifications

Parameters = dict[str, Any]
VERSION_LIMIT = 10_000
_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")


def find(world: World, template_id: str | None, name: str | None) -> LaunchTemplate:
    """Return a launch template by id or name.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateId.NotFound``, ``InvalidLaunchTemplateName.NotFoundException``, ``MissingParameter``.
    """
    visible = {
        each.template_id: each
        for each in world.templates.values()
        if _is_visible(world, each)
    }
    if template_id:
        if template_id in visible:
            return visible[template_id]
        raise Ec2Error(
            "InvalidLaunchTemplateId.NotFound",
            f"The specified launch template, with template ID {template_id}, does not exist.",
        )
    if not name:
        raise Ec2Error(
            "MissingParameter",
            "Either launch template ID or launch template name must be specified.",
        )
    found = next((t for t in visible.values() if t.name == name), None)
    if found is None:
        raise Ec2Error(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {name}, does not exist.",
        )
    return found


def _is_visible(world: World, template: LaunchTemplate) -> bool:
    """Whether what was made has reached the part of EC2 that is asked: it is eventually consistent."""
    return world.now() - template.created_at >= timedelta(
        seconds=world.settings.template_lag_s
    )


def version_of(template: LaunchTemplate, number: str | None) -> LaunchTemplateVersion:
    """Return a version by number, ``$Latest`` or ``$Default``; the default version when none is named.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateId.VersionNotFound``.
    """
    wanted: int | str | None = {
        "$Latest": template.latest_version,
        "$Default": template.default_version,
        None: template.default_version,
    }.get(number, number)
    if str(wanted).isdigit() and int(str(wanted)) in template.versions:
        return template.versions[int(str(wanted))]
    raise Ec2Error(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find the specified version {number} for the launch template with ID {template.template_id}.",
    )


def check_new(world: World, parameters: Parameters) -> None:
    """Refuse what CreateLaunchTemplate refuses by its name and tags; this much of it a dry run does.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateName.AlreadyExistsException``, ``InvalidLaunchTemplateName.MalformedException``,
        ``InvalidParameter``, ``InvalidParameterValue``.
    """
    name = parameters["LaunchTemplateName"]
    if not _NAME.fullmatch(name):
        raise Ec2Error(
            "InvalidLaunchTemplateName.MalformedException",
            "Launch template names have 3 to 128 letters, digits or ()./_-.",
        )
    if any(t.name == name for t in world.templates.values()):
        raise Ec2Error(
            "InvalidLaunchTemplateName.AlreadyExistsException",
            "Launch template name already in use.",
        )
    from_specifications(parameters.get("TagSpecifications"), ["launch-template"])


def create_launch_template(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateLaunchTemplate; the data is not validated here, as in EC2: errors surface at launch.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateName.AlreadyExistsException``, ``InvalidLaunchTemplateName.MalformedException``,
        ``InvalidParameter``, ``InvalidParameterValue``, ``TagLimitExceeded``, ``VersionLimitExceeded``.
    """
    check_new(world, parameters)
    name = parameters["LaunchTemplateName"]
    tags = from_specifications(parameters.get("TagSpecifications"), ["launch-template"])
    template = LaunchTemplate(world.ids.resource("lt"), name, world.now(), {})
    world.templates[template.template_id] = template
    _add_version(world, template, parameters)
    world.tags.put(template.template_id, tags.get("launch-template", {}))
    return {"LaunchTemplate": _rendered(world, template)}


def create_launch_template_version(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateLaunchTemplateVersion.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateId.VersionNotFound``, ``VersionLimitExceeded``, and as :func:`find` does.
    """
    template = find(
        world, parameters.get("LaunchTemplateId"), parameters.get("LaunchTemplateName")
    )
    base: dict[str, Any] = {}
    if parameters.get("SourceVersion"):
        base = version_of(template, parameters["SourceVersion"]).data
    version = _add_version(
        world,
        template,
        parameters | {"LaunchTemplateData": base | parameters["LaunchTemplateData"]},
    )
    return {"LaunchTemplateVersion": _rendered_version(world, template, version)}


def modify_launch_template(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer ModifyLaunchTemplate: the default version moves.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateId.VersionNotFound``, and as :func:`find` does.
    """
    template = find(
        world, parameters.get("LaunchTemplateId"), parameters.get("LaunchTemplateName")
    )
    if "DefaultVersion" in parameters:
        template.default_version = version_of(template, parameters["DefaultVersion"]).number
    return {"LaunchTemplate": _rendered(world, template)}


def delete_launch_template(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DeleteLaunchTemplate.

    Raises
    ------
    Ec2Error
        As :func:`find` does.
    """
    template = find(
        world, parameters.get("LaunchTemplateId"), parameters.get("LaunchTemplateName")
    )
    del world.templates[template.template_id]
    return {"LaunchTemplate": _rendered(world, template)}


def delete_launch_template_versions(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DeleteLaunchTemplateVersions; the default version cannot be deleted.

    Raises
    ------
    Ec2Error
        As :func:`find` does.
    """
    template = find(
        world, parameters.get("LaunchTemplateId"), parameters.get("LaunchTemplateName")
    )
    deleted, failed = [], []
    for number in parameters["Versions"]:
        common = {
            "LaunchTemplateId": template.template_id,
            "LaunchTemplateName": template.name,
            "VersionNumber": int(number),
        }
        if int(number) not in template.versions:
            failed.append(
                common
                | {
                    "ResponseError": {
                        "Code": "launchTemplateVersionDoesNotExist",
                        "Message": "No such version.",
                    }
                }
            )
        elif int(number) == template.default_version:
            failed.append(
                common
                | {
                    "ResponseError": {
                        "Code": "unexpectedError",
                        "Message": "The default version cannot be deleted.",
                    }
                }
            )
        else:
            del template.versions[int(number)]
            deleted.append(common)
    return {
        "SuccessfullyDeletedLaunchTemplateVersions": deleted,
        "UnsuccessfullyDeletedLaunchTemplateVersions": failed,
    }


def describe_launch_templates(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeLaunchTemplates.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``, and as :func:`find` does.
    """
    ids = parameters.get("LaunchTemplateIds", [])
    names = parameters.get("LaunchTemplateNames", [])
    if ids or names:
        chosen = [find(world, i, None) for i in ids] + [find(world, None, n) for n in names]
    else:
        chosen = [each for each in world.templates.values() if _is_visible(world, each)]
    readers: Readers[LaunchTemplate] = {
        "launch-template-name": lambda t: t.name,
        "create-time": lambda t: t.created_at,
    }
    found = select(
        chosen, parameters.get("Filters"), readers, lambda t: world.tags.of(t.template_id)
    )
    templates, token = page(
        found, parameters, default=200, maximum=200, with_ids=bool(ids or names)
    )
    return without_empty(
        {"LaunchTemplates": [_rendered(world, t) for t in templates], "NextToken": token}
    )


def describe_launch_template_versions(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DescribeLaunchTemplateVersions, newest first.

    Raises
    ------
    Ec2Error
        ``InvalidLaunchTemplateId.VersionNotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``, and as
        :func:`find` does.
    """
    template_id = parameters.get("LaunchTemplateId")
    name = parameters.get("LaunchTemplateName")
    wanted = parameters.get("Versions")
    if template_id or name:
        template = find(world, template_id, name)
        numbers = wanted or [str(n) for n in sorted(template.versions, reverse=True)]
        chosen = [(template, version_of(template, n)) for n in numbers]
    elif wanted and set(wanted) <= {"$Latest", "$Default"}:
        chosen = [(t, version_of(t, n)) for t in world.templates.values() for n in wanted]
    else:
        raise Ec2Error(
            "MissingParameter",
            "Name a launch template, or ask for $Latest or $Default of all of them.",
        )
    if parameters.get("Filters"):
        raise invalid_value("Filters are not emulated for DescribeLaunchTemplateVersions.")
    versions, token = page(chosen, parameters, default=200, maximum=200)
    return without_empty(
        {
            "LaunchTemplateVersions": [_rendered_version(world, t, v) for t, v in versions],
            "NextToken": token,
        }
    )


def _add_version(
    world: World, template: LaunchTemplate, parameters: Parameters
) -> LaunchTemplateVersion:
    number = max(template.versions, default=0) + 1
    if len(template.versions) >= VERSION_LIMIT:
        raise Ec2Error(
            "VersionLimitExceeded", "The launch template has reached its limit of versions."
        )
    version = LaunchTemplateVersion(
        number,
        parameters["LaunchTemplateData"],
        parameters.get("VersionDescription"),
        world.now(),
    )
    template.versions[number] = version
    return version


def _rendered(world: World, template: LaunchTemplate) -> dict[str, Any]:
    return without_empty(
        {
            "LaunchTemplateId": template.template_id,
            "LaunchTemplateName": template.name,
            "CreateTime": template.created_at,
            "CreatedBy": f"arn:aws:iam::{world.account_id}:root",
            "DefaultVersionNumber": template.default_version,
            "LatestVersionNumber": template.latest_version,
            "Tags": world.tags.rendered(template.template_id),
        }
    )


def _rendered_version(
    world: World, template: LaunchTemplate, version: LaunchTemplateVersion
) -> dict[str, Any]:
    return without_empty(
        {
            "LaunchTemplateId": template.template_id,
            "LaunchTemplateName": template.name,
            "VersionNumber": version.number,
            "VersionDescription": version.description,
            "CreateTime": version.created_at,
            "CreatedBy": f"arn:aws:iam::{world.account_id}:root",
            "DefaultVersion": version.number == template.default_version,
            "LaunchTemplateData": version.data,
        }
    )
