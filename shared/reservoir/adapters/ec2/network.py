"""What a NodeClass selects besides reservations: subnets, security groups, images, the instance profile."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.core.model.node_class import MachineImage, SelectorTerm, Subnet
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_ssm import SSMClient

T = TypeVar("T")

# A class's selection changes when people change it; a warm function asks again this often.
_REMEMBERED: Final = timedelta(minutes=5)
_ANY_VALUE: Final = "*"
_LATEST: Final = "latest"
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_AMAZON_LINUX: Final = "/aws/service/ami-amazon-linux-latest/"
_WINDOWS: Final = "/aws/service/ami-windows-latest/"
_BOTTLEROCKET: Final = "/aws/service/bottlerocket/aws-ecs-2/"
# AWS's public parameters with the newest image of a family, by EC2's name of the architecture.
_LATEST_PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "al2": {
        "x86_64": _AMAZON_LINUX + "amzn2-ami-kernel-5.10-hvm-x86_64-gp2",
        "arm64": _AMAZON_LINUX + "amzn2-ami-kernel-5.10-hvm-arm64-gp2",
    },
    "al2023": {
        "x86_64": _AMAZON_LINUX + "al2023-ami-kernel-default-x86_64",
        "arm64": _AMAZON_LINUX + "al2023-ami-kernel-default-arm64",
    },
    "bottlerocket": {
        "x86_64": _BOTTLEROCKET + "x86_64/latest/image_id",
        "arm64": _BOTTLEROCKET + "arm64/latest/image_id",
    },
    "windows2019": {"x86_64": _WINDOWS + "Windows_Server-2019-English-Core-Base"},
    "windows2022": {"x86_64": _WINDOWS + "Windows_Server-2022-English-Core-Base"},
    "windows2025": {"x86_64": _WINDOWS + "Windows_Server-2025-English-Core-Base"},
}
# Names of a family's images of one version.
_PINNED_NAMES: Final[Mapping[str, str]] = {
    "al2": "amzn2-ami-kernel-5.10-hvm-{version}-*-gp2",
    "al2023": "al2023-ami-{version}-kernel-*",
    "bottlerocket": "bottlerocket-aws-ecs-2-*-v{version}-*",
    "windows2019": "Windows_Server-2019-English-Core-Base-{version}",
    "windows2022": "Windows_Server-2022-English-Core-Base-{version}",
    "windows2025": "Windows_Server-2025-English-Core-Base-{version}",
}


class Ec2LaunchEnvironment:
    """Implements ``reservoir.ports.discovery.LaunchEnvironmentReader``."""

    def __init__(
        self, ec2: "EC2Client", ssm: "SSMClient", iam: "IAMClient", clock: Clock
    ) -> None:
        self._ec2 = ec2
        self._ssm = ssm
        self._iam = iam
        self._clock = clock
        self._memory: dict[Hashable, tuple[datetime, Any]] = {}

    def subnets(self, terms: Sequence[SelectorTerm]) -> tuple[Subnet, ...]:
        """Return the selected subnets, by id."""

        def read() -> tuple[Subnet, ...]:
            found: dict[str, Subnet] = {}
            for filters in _filters_of(terms, "subnet-id"):
                for page in self._ec2.get_paginator("describe_subnets").paginate(
                    Filters=filters
                ):
                    for subnet in page["Subnets"]:
                        found[subnet["SubnetId"]] = Subnet(
                            subnet["SubnetId"],
                            subnet["AvailabilityZone"],
                            subnet["AvailabilityZoneId"],
                            subnet["AvailableIpAddressCount"],
                        )
            return tuple(found[key] for key in sorted(found))

        return self._remembered(("subnets", _key(terms)), read)

    def security_group_ids(self, terms: Sequence[SelectorTerm]) -> tuple[str, ...]:
        """Return the selected security groups, sorted."""

        def read() -> tuple[str, ...]:
            found: set[str] = set()
            for filters in _filters_of(terms, "group-id", "group-name"):
                for page in self._ec2.get_paginator("describe_security_groups").paginate(
                    Filters=filters
                ):
                    found.update(group["GroupId"] for group in page["SecurityGroups"])
            return tuple(sorted(found))

        return self._remembered(("security groups", _key(terms)), read)

    def machine_images(self, terms: Sequence[SelectorTerm]) -> tuple[MachineImage, ...]:
        """Return the newest selected image of each architecture, by architecture."""

        def read() -> tuple[MachineImage, ...]:
            selected = chain.from_iterable(self._images(term) for term in terms)
            return newest_by_architecture(selected)

        return self._remembered(("images", _key(terms)), read)

    def _images(self, term: SelectorTerm) -> list[MachineImage]:
        if term.ssm_parameter is not None:
            ids = self._parameters([term.ssm_parameter]).values()
            if ids:
                return self._described(
                    [{"Name": "image-id", "Values": sorted(ids)}], owners=None
                )
            return []
        if term.alias is None:
            (filters,) = _filters_of([term], "image-id", "name")
            owners = (
                None
                if term.id is not None
                else [term.owner]
                if term.owner
                else ["self", "amazon"]
            )
            return self._described(filters, owners)
        family, _, version = term.alias.partition("@")
        if version != _LATEST:
            return self._described(
                [{"Name": "name", "Values": [pinned_name(family, version)]}], ["amazon"]
            )
        parameters = _LATEST_PARAMETERS[family]
        values = self._parameters(list(parameters.values()))
        return [
            MachineImage(values[name], _ARCHITECTURES[architecture], name)
            for architecture, name in parameters.items()
            if name in values
        ]

    def _parameters(self, names: list[str]) -> dict[str, str]:
        answer = self._ssm.get_parameters(Names=names)
        return {parameter["Name"]: parameter["Value"] for parameter in answer["Parameters"]}

    def _described(
        self, filters: list[Any], owners: list[str] | None
    ) -> list[MachineImage]:
        arguments: dict[str, Any] = {
            "Filters": [*filters, {"Name": "state", "Values": ["available"]}]
        }
        if owners is not None:
            arguments["Owners"] = owners
        pages = self._ec2.get_paginator("describe_images").paginate(**arguments)
        return [
            MachineImage(
                image["ImageId"],
                _ARCHITECTURES[image["Architecture"]],
                image.get("Name", ""),
                image.get("CreationDate", ""),
            )
            for image in pages.search("Images[]")
            if image.get("Architecture") in _ARCHITECTURES
        ]

    def instance_profile(self, role: str) -> str | None:
        """Return the name of an instance profile that carries the role, None when there is none."""

        def read() -> str | None:
            pages = self._iam.get_paginator("list_instance_profiles_for_role").paginate(
                RoleName=role
            )
            names = sorted(pages.search("InstanceProfiles[].InstanceProfileName"))
            return names[0] if names else None

        return self._remembered(("instance profile", role), read)

    def _remembered(self, key: Hashable, read: Callable[[], T]) -> T:
        now = self._clock.now()
        known = self._memory.get(key)
        if known is not None and now - known[0] < _REMEMBERED:
            value: T = known[1]
            return value
        with map_client_errors():
            value = read()
        self._memory[key] = (now, value)
        return value


def pinned_name(family: str, version: str) -> str:
    """Return the pattern of the names of a family's images of one version, with or without the v before it."""
    return _PINNED_NAMES[family].format(version=version.removeprefix("v"))


def newest_by_architecture(images: Iterable[MachineImage]) -> tuple[MachineImage, ...]:
    """Return the newest image of each architecture; the name, then the id decide between equals."""
    newest: dict[str, MachineImage] = {}
    for image in sorted(images, key=lambda image: (image.created_at, image.name, image.id)):
        newest[image.architecture] = image
    return tuple(newest[key] for key in sorted(newest))


def _filters_of(
    terms: Sequence[SelectorTerm], id_filter: str, name_filter: str | None = None
) -> list[list[Any]]:
    """Return EC2's filters for each query that the terms need; all ids share one."""
    queries: list[list[Any]] = []
    ids = sorted({term.id for term in terms if term.id is not None})
    if ids:
        queries.append([{"Name": id_filter, "Values": ids}])
    for term in terms:
        if term.id is not None:
            continue
        filters = [_tag_filter(key, value) for key, value in sorted(term.tags.items())]
        if name_filter is not None and term.name is not None:
            filters.append({"Name": name_filter, "Values": [term.name]})
        if filters:
            queries.append(filters)
    return queries


def _tag_filter(key: str, value: str) -> dict[str, Any]:
    if value == _ANY_VALUE:
        return {"Name": "tag-key", "Values": [key]}
    return {"Name": f"tag:{key}", "Values": [value]}


def _key(terms: Sequence[SelectorTerm]) -> tuple[Any, ...]:
    return tuple(
        (
            term.id,
            term.name,
            term.owner,
            term.alias,
            term.ssm_parameter,
            tuple(sorted(term.tags.items())),
        )
        for term in terms
    )
