"""Which permissions an EC2 request needs: actions, resources and the tags that policies can ask about.

MiniStack checks an EC2 request as one action on one resource. EC2 checks a launch as many: the fleet, the instances,
their volumes and network interfaces with the tags they get, the launch template with the tags it has, what the launch
refers to, ``ec2:CreateTags`` for what is tagged at birth, and ``iam:PassRole`` for the instance profile. The resource
types are those of the Service Authorization Reference, page "Actions, resources, and condition keys for Amazon EC2".
Where that page leaves open whether an optional resource is checked, it is checked here: what this allows, EC2 allows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from lab.embedded.ec2.api.protocol import Call
from lab.embedded.ec2.api.tags import resource_type

Tags = Mapping[str, str]
NO_TAGS: Final[Tags] = {}

# The parameters by which a request names what a launch refers to.
_PARAMETERS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "image": ("ImageId",),
    "subnet": ("SubnetId", "NetworkInterfaces"),
    "security-group": ("SecurityGroupIds", "NetworkInterfaces"),
    "placement-group": ("Placement",),
    "capacity-reservation": ("CapacityReservationSpecification",),
}
# What a Create call makes where its name does not say so.
_MADE_BY: Final[Mapping[str, str]] = {
    "CreateCapacityReservationBySplitting": "capacity-reservation",
    "CreateInterruptibleCapacityReservationAllocation": "capacity-reservation",
    "CreateCapacityReservationDateChangeQuote": "capacity-reservation-modification-quote",
}
ALWAYS_LAUNCHED: Final = ("instance", "network-interface", "volume")


@dataclass(frozen=True, slots=True)
class Check:
    """One action on one resource; ``kind`` is an EC2 resource type, "*" for none, "role" for an IAM role's ARN."""

    action: str
    kind: str
    resource_id: str
    request_tags: Tags = field(default_factory=dict)
    resource_tags: Tags = field(default_factory=dict)
    create_action: str | None = None
    passed_to: str | None = None
    launch_template_id: str | None = None
    # whether the resource is the template's, not one that the request names
    in_launch_template: bool = False
    metadata_http_tokens: str | None = None

    def resource_arn(self, account_id: str, region: str) -> str:
        """Return the resource as policies name it."""
        if self.kind in ("*", "role"):
            return self.resource_id
        owner = "" if self.kind in ("image", "snapshot") else account_id
        return f"arn:aws:ec2:{region}:{owner}:{self.kind}/{self.resource_id}"

    def context(self, account_id: str, region: str) -> dict[str, Any]:
        """Return the condition keys of this check."""
        keys: dict[str, Any] = {
            f"aws:RequestTag/{name}": value for name, value in self.request_tags.items()
        }
        keys |= {
            f"aws:ResourceTag/{name}": value for name, value in self.resource_tags.items()
        }
        keys |= {
            f"ec2:ResourceTag/{name}": value for name, value in self.resource_tags.items()
        }
        if self.request_tags:
            keys["aws:TagKeys"] = sorted(self.request_tags)
        if self.create_action:
            keys["ec2:CreateAction"] = self.create_action
        if self.passed_to:
            keys["iam:PassedToService"] = self.passed_to
        if self.launch_template_id:
            keys["ec2:LaunchTemplate"] = (
                f"arn:aws:ec2:{region}:{account_id}:launch-template/{self.launch_template_id}"
            )
            keys["ec2:IsLaunchTemplateResource"] = str(self.in_launch_template).lower()
        if self.metadata_http_tokens:
            keys["ec2:MetadataHttpTokens"] = self.metadata_http_tokens
        return keys


class Account(Protocol):
    """What the checks depend on beside the request."""

    def tags_of(self, resource_id: str) -> Tags:
        """Return the tags of an EC2 resource."""
        ...

    def launch_template(
        self, specification: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any]] | None:
        """Return (id, launch template data) of a LaunchTemplateSpecification, or None when there is no such version."""
        ...

    def role_arn(self, instance_profile: Mapping[str, Any]) -> str | None:
        """Return the role of an instance profile that is named by ``Arn`` or ``Name``."""
        ...

    def volume_key(self, ebs: Mapping[str, Any]) -> str | None:
        """Return the customer managed key of a volume: the one that it names, or the account's default."""
        ...


def checks(call: Call, account: Account) -> list[Check]:
    """Return every check that EC2 makes for ``call``; all must pass."""
    if call.operation == "CreateFleet":
        return list(_fleet(call.parameters, account))
    if call.operation == "RunInstances":
        return list(
            _launch(_run_instances(call.parameters, account), account, "RunInstances")
        )
    if call.operation in ("CreateTags", "DeleteTags"):
        return list(_tagging(call, account))
    return [*_creation(call), *_named(call, account)] or [
        Check(f"ec2:{call.operation}", "*", "*")
    ]


@dataclass(frozen=True, slots=True)
class _Launch:
    """One kind of launch: its template, its data (the template's with the request's on top), the request's tags."""

    template_id: str | None
    data: Mapping[str, Any]
    request_tags: Mapping[str, Tags]
    # what the request, or an override of a fleet, puts in the template's place
    requested: Mapping[str, Any]

    @property
    def tokens(self) -> str | None:
        """How instances get metadata, as far as the launch says."""
        found: str | None = (self.data.get("MetadataOptions") or {}).get("HttpTokens")
        return found

    def takes_from_template(self, *names: str) -> bool:
        """Whether a launch from a template leaves these of its parameters alone."""
        return self.template_id is not None and not any(
            name in self.requested for name in names
        )


def _tag_specifications(
    specifications: Iterable[Mapping[str, Any]] | None,
) -> dict[str, Tags]:
    tags_of: dict[str, Tags] = {}
    for specification in specifications or ():
        if "ResourceType" in specification:
            tags = specification.get("Tags", ())
            named = {tag["Key"]: tag.get("Value", "") for tag in tags}
            tags_of[specification["ResourceType"]] = named
    return tags_of


def _run_instances(parameters: Mapping[str, Any], account: Account) -> list[_Launch]:
    found = (
        account.launch_template(parameters["LaunchTemplate"])
        if "LaunchTemplate" in parameters
        else None
    )
    template_id, data = found or (None, {})
    tags = _tag_specifications(parameters.get("TagSpecifications"))
    merged = {**data, **parameters, "TagSpecifications": data.get("TagSpecifications")}
    return [_Launch(template_id, merged, tags, parameters)]


def _of_fleet(parameters: Mapping[str, Any], account: Account) -> Iterator[_Launch]:
    tags = _tag_specifications(parameters.get("TagSpecifications"))
    for config in parameters.get("LaunchTemplateConfigs", ()):
        found = account.launch_template(config.get("LaunchTemplateSpecification", {}))
        if found is None:
            # it launches nothing; whether it may be asked for is checked in `_fleet`
            continue
        template_id, data = found
        for override in config.get("Overrides") or [{}]:
            yield _Launch(template_id, {**data, **override}, tags, override)


def keys_of_volumes(call: Call, account: Account) -> Iterator[str]:
    """Yield the customer managed keys of a launch's volumes: ids, ARNs or aliases."""
    launches: Iterable[_Launch] = ()
    if call.operation == "CreateFleet":
        launches = _of_fleet(call.parameters, account)
    elif call.operation == "RunInstances":
        launches = _run_instances(call.parameters, account)
    for launch in launches:
        for mapping in launch.data.get("BlockDeviceMappings") or [{}]:
            if key := account.volume_key(mapping.get("Ebs") or {}):
                yield key


def _fleet(parameters: Mapping[str, Any], account: Account) -> Iterator[Check]:
    tags = _tag_specifications(parameters.get("TagSpecifications"))
    yield Check("ec2:CreateFleet", "fleet", "*", tags.get("fleet", NO_TAGS))
    for config in parameters.get("LaunchTemplateConfigs", ()):
        if account.launch_template(config.get("LaunchTemplateSpecification", {})) is None:
            # EC2 authorizes before it looks, on a resource that has no tags: kubernetes-sigs/karpenter#2813 shows its
            # answer to a template that does not exist.
            yield Check(
                "ec2:CreateFleet", "launch-template", "*", tags.get("fleet", NO_TAGS)
            )
    seen: dict[object, Check] = {}
    for check in _launch(_of_fleet(parameters, account), account, "CreateFleet"):
        seen.setdefault(_identity(check), check)
        if check.action == "ec2:RunInstances" and check.kind in (
            "instance",
            "launch-template",
        ):
            fleet_check = Check(
                "ec2:CreateFleet",
                check.kind,
                check.resource_id,
                check.request_tags,
                check.resource_tags,
            )
            seen.setdefault(_identity(fleet_check), fleet_check)
    if "fleet" in tags:
        yield Check(
            "ec2:CreateTags", "fleet", "*", tags["fleet"], create_action="CreateFleet"
        )
    yield from seen.values()


def _identity(check: Check) -> object:
    """Return what makes two checks the same."""
    tags = (
        tuple(sorted(tags.items())) for tags in (check.request_tags, check.resource_tags)
    )
    template = (
        check.launch_template_id,
        check.in_launch_template,
        check.metadata_http_tokens,
    )
    return (
        check.action,
        check.kind,
        check.resource_id,
        check.create_action,
        *tags,
        *template,
    )


def _launch(
    launches: Iterable[_Launch], account: Account, operation: str
) -> Iterator[Check]:
    for launch in launches:
        template_tags = _tag_specifications(launch.data.get("TagSpecifications"))
        merged = {
            kind: {**template_tags.get(kind, {}), **launch.request_tags.get(kind, {})}
            for kind in (*template_tags, *launch.request_tags)
        }
        # What a template's launch creates counts as the template's, also where the request chooses type or subnet.
        run = partial(
            Check,
            "ec2:RunInstances",
            launch_template_id=launch.template_id,
            in_launch_template=launch.template_id is not None,
        )
        for kind in ALWAYS_LAUNCHED:
            tokens = launch.tokens if kind == "instance" else None
            tags = merged.get(kind, NO_TAGS)
            yield run(kind, "*", tags, metadata_http_tokens=tokens)
        for kind, tags in merged.items():
            if kind == "fleet" or not tags:
                continue
            if kind not in ALWAYS_LAUNCHED:
                yield run(kind, "*", tags)
            source = operation if kind in launch.request_tags else "RunInstances"
            yield Check("ec2:CreateTags", kind, "*", tags, create_action=source)
        yield from _referred(launch, account)


def _referred(launch: _Launch, account: Account) -> Iterator[Check]:
    data = launch.data
    interfaces = data.get("NetworkInterfaces") or ()
    placement = data.get("Placement") or {}
    target = (data.get("CapacityReservationSpecification") or {}).get(
        "CapacityReservationTarget"
    ) or {}
    groups = [
        *(data.get("SecurityGroupIds") or ()),
        *(g for each in interfaces for g in each.get("Groups") or ()),
    ]
    named = {
        "launch-template": [launch.template_id] if launch.template_id else [],
        "image": [data["ImageId"]]
        if str(data.get("ImageId", "")).startswith("ami-")
        else ["*"],
        "subnet": [data["SubnetId"]]
        if data.get("SubnetId")
        else [e["SubnetId"] for e in interfaces if "SubnetId" in e],
        "security-group": groups,
        "placement-group": [placement["GroupName"]] if placement.get("GroupName") else [],
        "capacity-reservation": [target["CapacityReservationId"]]
        if target.get("CapacityReservationId")
        else [],
    }
    for kind in ("subnet", "security-group"):
        named[kind] = named[kind] or ["*"]  # the default of the network
    for kind, identities in named.items():
        for identity in identities:
            yield Check(
                "ec2:RunInstances",
                kind,
                identity,
                resource_tags=account.tags_of(identity),
                launch_template_id=launch.template_id,
                in_launch_template=launch.takes_from_template(
                    *_PARAMETERS_OF.get(kind, ())
                ),
            )
    if group := target.get("CapacityReservationResourceGroupArn"):
        yield Check("ec2:RunInstances", "*", group)
    if (profile := data.get("IamInstanceProfile")) and (role := account.role_arn(profile)):
        yield Check("iam:PassRole", "role", role, passed_to="ec2.amazonaws.com")


def _tagging(call: Call, account: Account) -> Iterator[Check]:
    tags = {tag["Key"]: tag.get("Value", "") for tag in call.parameters.get("Tags", ())}
    for identity in call.parameters.get("Resources", ()):
        kind = resource_type(identity) or "*"
        yield Check(
            f"ec2:{call.operation}", kind, identity, tags, account.tags_of(identity)
        )


def _creation(call: Call) -> Iterator[Check]:
    """Check what a Create call makes: its kind is named by its tag specification, or follows from its name."""
    if (
        not call.operation.startswith("Create")
        or call.operation == "CreateLaunchTemplateVersion"
    ):
        return
    tagged = _tag_specifications(call.parameters.get("TagSpecifications"))
    words = "".join(
        f"-{letter.lower()}" if letter.isupper() else letter
        for letter in call.operation[6:]
    )
    kind = _MADE_BY.get(call.operation, words.removeprefix("-"))
    kinds = tagged or {kind: NO_TAGS}
    for kind, tags in kinds.items():
        yield Check(f"ec2:{call.operation}", kind, "*", tags)
        if tags:
            yield Check("ec2:CreateTags", kind, "*", tags, create_action=call.operation)


def _named(call: Call, account: Account) -> Iterator[Check]:
    """Check the resources that a call changes; calls that only describe know no resources."""
    if call.operation.startswith("Describe"):
        return
    identities: list[str] = []
    for name, value in call.parameters.items():
        if name.endswith("Id") and isinstance(value, str):
            identities.append(value)
        elif name.endswith("Ids") and isinstance(value, list):
            identities += value
    if "LaunchTemplateName" in call.parameters and call.operation != "CreateLaunchTemplate":
        identities += _template_by_name(call, account)
    for identity in identities:
        if kind := resource_type(identity):
            yield Check(
                f"ec2:{call.operation}",
                kind,
                identity,
                resource_tags=account.tags_of(identity),
            )


def _template_by_name(call: Call, account: Account) -> list[str]:
    found = account.launch_template(
        {"LaunchTemplateName": call.parameters["LaunchTemplateName"]}
    )
    return [found[0]] if found else []
