"""A NodePool and an EC2NodeClass under construction."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reservoir.core.scheduling_terms.labels import (
    INSTANCE_FAMILY,
    INSTANCE_TYPE,
)
from reservoir.manifests.importing.part import SourcePart
from reservoir.manifests.kinds.image_terms import ALIAS_FAMILIES
from reservoir.manifests.parsing.problems import shown

ARCHITECTURE: Final = "kubernetes.io/arch"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
ZONE: Final = "topology.kubernetes.io/zone"
# Values for what the source does not name; as in the examples.
ROLE: Final = "reservoir-node"
_TAGGED: Final = [{"tags": {"reservoir": "true"}}]
_LONGEST_NAME: Final = 63
_A_TYPE: Final = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
_AN_IAM_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)
_ROOT_DEVICE: Final = "/dev/xvda"
_MINE: Final = re.compile(r"(aws:|karpenter|kubernetes\.io/|eks:|reservoir)")


def name_of(text: str | None, otherwise: str) -> str:
    """Return a name that an object may have, as near to the given one as possible."""
    plain = re.sub(r"[^a-z0-9]+", "-", (text or "").lower()).strip("-")[:_LONGEST_NAME]
    return plain.strip("-") or otherwise


def among(key: str, values: Iterable[str]) -> dict[str, Any]:
    """Return a requirement."""
    return {"key": key, "operator": "In", "values": list(dict.fromkeys(values))}


@dataclass(slots=True)
class Draft:
    """The draft of an object. ``source``: the place that notes about missing parts point to."""

    name: str
    source: SourcePart
    capacity_types: list[str] = field(default_factory=lambda: ["on-demand"])
    types: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    requirements: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    limits: dict[str, Any] = field(default_factory=dict)
    expire_after: str | None = None
    reservations: list[dict[str, Any]] = field(default_factory=list)
    uses_open_reservations: bool = False
    subnets: list[str] = field(default_factory=list)
    subnet_tags: dict[str, str] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    image: dict[str, Any] | None = None
    role: str | None = None
    profile: str | None = None
    placement_group: str | None = None
    root_gib: int | None = None
    root: dict[str, Any] = field(default_factory=dict)
    disks: list[dict[str, Any]] = field(default_factory=list)
    user_data: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    http_tokens: str | None = None
    hop_limit: int | None = None

    def add_types(self, names: Sequence[str]) -> None:
        """Allow instance types, and families of them."""
        for name in names:
            kind = self.types if _A_TYPE.fullmatch(name) else self.families
            if name not in kind:
                kind.append(name)

    def add_reservations(self, ids: Sequence[str], groups: Sequence[str]) -> None:
        """Allow reservations, by id or by resource group."""
        self.reservations += [{"id": each} for each in ids]
        self.reservations += [{"reservationGroupARN": each} for each in groups]

    def manifests(self) -> list[dict[str, Any]]:
        """Return the pools and the class; a pool for types and one for families, where there are both."""
        self._keep_ids()
        is_reserved_only = not set(self.capacity_types) - {"reserved"}
        if is_reserved_only and not self.reservations:
            self.reservations = list(_TAGGED)
            self._to_fill(
                f"names no reservation: EC2NodeClass/{self.name} selects those with reservoir=true"
            )
        if not (self.types or self.families or self.requirements):
            self._to_fill(
                f"names no instance type: NodePool/{self.name} launches any that fits"
            )
        choices = [
            (INSTANCE_TYPE, self.types, self.name),
            (INSTANCE_FAMILY, self.families, self.name if not self.types else ""),
        ]
        pools = [
            self._pool(name or f"{self.name}-families", [among(key, values)])
            for key, values, name in choices
            if values
        ]
        return [*(pools or [self._pool(self.name, [])]), self._node_class()]

    def _pool(self, name: str, chosen: list[dict[str, Any]]) -> dict[str, Any]:
        reserved = ["reserved"] if self.reservations else []
        capacity = among(CAPACITY_TYPE, [*reserved, *self.capacity_types])
        reference = {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": self.name,
        }
        template: dict[str, Any] = {
            "nodeClassRef": reference,
            "requirements": [capacity, *chosen, *self.requirements],
        }
        if self.taints:
            template["taints"] = self.taints
        if self.expire_after is not None:
            template["expireAfter"] = self.expire_after
        spec: dict[str, Any] = {"template": {"spec": template}}
        if self.labels:
            spec["template"] = {"metadata": {"labels": self.labels}, "spec": template}
        if self.limits:
            spec["limits"] = self.limits
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": spec,
        }

    def _node_class(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        if self.reservations:
            spec["capacityReservationSelectorTerms"] = self.reservations
        elif self.uses_open_reservations:
            spec["openReservationPreference"] = "open"
        spec["subnetSelectorTerms"] = self._chosen(
            "subnets", self.subnets, self.subnet_tags
        )
        spec["securityGroupSelectorTerms"] = self._chosen(
            "security groups", self.groups, {}
        )
        spec["amiSelectorTerms"] = [self._image()]
        if self.profile is not None:
            spec["instanceProfile"] = self.profile
        else:
            spec["role"] = self._role()
        if self.user_data is not None:
            spec["userData"] = self.user_data
        disks = [*self._root_disk(), *self.disks]
        if disks:
            spec["blockDeviceMappings"] = disks
        options = {
            "httpTokens": self.http_tokens,
            "httpPutResponseHopLimit": self.hop_limit,
        }
        if any(value is not None for value in options.values()):
            spec["metadataOptions"] = {
                name: value for name, value in options.items() if value is not None
            }
        if self.placement_group is not None:
            kind = "id" if self.placement_group.startswith("pg-") else "name"
            spec["placementGroupSelector"] = {kind: self.placement_group}
        tags = {key: text for key, text in self.tags.items() if not _MINE.match(key)}
        if tags:
            spec["tags"] = tags
        return {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def _chosen(
        self, what: str, ids: Sequence[str], tags: dict[str, str]
    ) -> list[dict[str, Any]]:
        if ids:
            return [{"id": each} for each in dict.fromkeys(ids)]
        if tags:
            return [{"tags": tags}]
        self._to_fill(f"names no {what}: EC2NodeClass/{self.name} selects reservoir=true")
        return _TAGGED

    def _image(self) -> dict[str, Any]:
        if self.image is not None:
            return self.image
        self._to_fill(f"names no image: EC2NodeClass/{self.name} has al2023@latest")
        return {"alias": "al2023@latest"}

    def _role(self) -> str:
        if self.role is not None:
            return self.role
        self._to_fill(f"names no role: EC2NodeClass/{self.name} has {ROLE}")
        return ROLE

    def _root_disk(self) -> list[dict[str, Any]]:
        if self.root_gib is None and not self.root:
            return []
        size = {} if self.root_gib is None else {"volumeSize": f"{self.root_gib}Gi"}
        return [
            {"deviceName": _ROOT_DEVICE, "ebs": {**size, **self.root}, "rootVolume": True}
        ]

    def _keep_ids(self) -> None:
        """Leave out values that are only a substitute for an id, such as a placeholder, and note it."""
        self.subnets = self._ids("subnet", self.subnets)
        self.groups = self._ids("sg", self.groups)
        images = [self.image["id"]] if self.image and "id" in self.image else []
        if images and not self._ids("ami", images):
            self.image = None
        named = [term["id"] for term in self.reservations if "id" in term]
        known = self._ids("cr", named)
        if len(known) < len(named):
            self.reservations = [
                it for it in self.reservations if it.get("id") not in named
            ]
            self.reservations += [{"id": each} for each in known]
        self.profile = self._iam_name(self.profile)
        self.role = self._iam_name(self.role)

    def _iam_name(self, name: str | None) -> str | None:
        if name is None or _AN_IAM_NAME.fullmatch(name):
            return name
        self._to_fill(f"{shown(name)} is no name that IAM knows and is left out")
        return None

    def _ids(self, prefix: str, given: Sequence[str]) -> list[str]:
        is_id = re.compile(rf"{prefix}-[0-9a-f]{{8,17}}").fullmatch
        for each in dict.fromkeys(given):
            if is_id(each) is None:
                self._to_fill(
                    f"{shown(each)} is no id of EC2's ({prefix}-...) and is left out"
                )
        return [each for each in given if is_id(each)]

    def _to_fill(self, message: str) -> None:
        self.source.note("", message)


def alias_of(family: str) -> dict[str, Any] | None:
    """Return the image of an operating system by one of its many names; None where there is no alias for it."""
    text = family.lower().replace("_", "").replace("-", "")
    aliases = {
        "al2023": "al2023",
        "amazonlinux2023": "al2023",
        "alinux2023": "al2023",
        "bottlerocket": "bottlerocket",
        "al2": "al2",
        "amazonlinux2": "al2",
        "alinux2": "al2",
    }
    for start, alias in aliases.items():
        if text.startswith((start, f"ecs{start}")) and alias in ALIAS_FAMILIES:
            return {"alias": f"{alias}@latest"}
    return None


def role_name(text: str) -> str:
    """Return a role's or profile's name out of an ARN or a name."""
    return text.rpartition("/")[2]
