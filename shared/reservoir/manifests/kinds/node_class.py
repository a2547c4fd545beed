"""EC2NodeClass (``karpenter.k8s.aws/v1``) in Karpenter's own shape, with the fields that reservations need."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from reservoir.core.launching.launch_template import USER_DATA_BYTES_MAX
from reservoir.core.launching.user_data import PLACEHOLDERS, wrong_placeholders
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    FleetTargetingMode,
    NodeClass,
    OpenReservationPreference,
)
from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.kinds import kubelet_amounts
from reservoir.manifests.kinds.family_disks import default_disks, storage_devices
from reservoir.manifests.kinds.image_terms import (
    AMI_FAMILIES,
    NO_WINDOWS,
    ImageTerm,
    note_on_alias,
)
from reservoir.manifests.kinds.instance_settings import (
    BlockDeviceMapping,
    ConnectionTracking,
    MetadataOptions,
    PlacementGroupSelector,
    check_tag_key,
    is_usual,
)
from reservoir.manifests.kinds.lending import LendingSpec
from reservoir.manifests.kinds.selector_terms import (
    MOST_TERMS,
    ReclaimGroupArn,
    ReservationId,
    ReservationTerm,
    ResourceGroupArn,
    SecurityGroupTerm,
    SubnetTerm,
)
from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.fields import broken, matching, without_nulls
from reservoir.manifests.parsing.hashing import static_hash
from reservoir.manifests.parsing.metadata import Metadata, ServerSide
from reservoir.manifests.parsing.model import (
    Contradiction,
    IgnoredBecause,
    Model,
    RefusedBecause,
    text_in,
)
from reservoir.manifests.parsing.problems import shown

API_VERSION: Final = "karpenter.k8s.aws/v1"
KIND: Final = "EC2NodeClass"
_INTERFACES: Final = (
    "instances get an EFA on every card that can carry one where a workload requests vpc.amazonaws.com/efa, and one"
    " plain interface otherwise"
)
_IS_OF_A_CLUSTER: Final = re.compile(r"(karpenter\.sh|kubernetes\.io)/").match
_MOST_TAGS: Final = 40  # EC2 allows 50; the product adds its own

_IAM_WORD: Final = r"[A-Za-z0-9+=,.@_-]"
RoleName = Annotated[
    str,
    AfterValidator(
        matching(
            "iam-name",
            rf"^(arn:aws[a-z-]{{0,20}}:iam::[0-9]{{12}}:role/|/)?({_IAM_WORD}{{1,128}}/){{0,16}}{_IAM_WORD}{{1,128}}$",
            "must be a role's name or ARN: letters, digits and any of + = , . @ _ -",
        )
    ),
    Field(
        description="By name or ARN; of a role with a path, what follows the path counts."
    ),
]
ProfileName = Annotated[
    str,
    AfterValidator(
        matching(
            "iam-name",
            r"^[A-Za-z0-9+=,.@_/-]{1,128}$",
            "must be a name, not an ARN: letters, digits and any of + = , . @ _ -",
            nearest.iam_name,
        )
    ),
]


def _check_user_data(text: str) -> str:
    size = len(text.encode())
    if size > USER_DATA_BYTES_MAX:
        raise broken("user-data", f"has {size} bytes; EC2 allows {USER_DATA_BYTES_MAX}")
    wrong = next(wrong_placeholders(text), None)
    if wrong is not None:
        known = ", ".join(PLACEHOLDERS)
        message = f"{shown(wrong)} is no placeholder, known are {known}; a node reads its claim and workloads itself"
        raise broken("user-data", message, lambda: closest(wrong, PLACEHOLDERS))
    return text


class CapacityReservationTarget(Model):
    """One reservation, or one group of them."""

    capacity_reservation_id: ReservationId | None = None
    capacity_reservation_resource_group_arn: ResourceGroupArn | None = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that exactly one is given."""
        given = [
            raw.get("capacityReservationId"),
            raw.get("capacityReservationResourceGroupArn"),
        ]
        if given.count(None) != 1:
            yield Contradiction(
                "",
                "capacity-reservation-spec",
                "needs exactly one of capacityReservationId and capacityReservationResourceGroupArn",
            )


class ReservationSpec(Model):
    """The first ODCR RFC's form: a preference, or a target. A target means the same as one selector term."""

    capacity_reservation_preference: Literal["open", "none"] | None = None
    capacity_reservation_target: CapacityReservationTarget | None = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that preference and target do not meet."""
        both = ("capacityReservationPreference", "capacityReservationTarget")
        if all(raw.get(name) is not None for name in both):
            yield Contradiction(
                both[0], "capacity-reservation-spec", f"cannot be combined with {both[1]}"
            )

    def to_term(self) -> CapacityReservationSelectorTerm | None:
        """Return the target as a selector term."""
        target = self.capacity_reservation_target
        if target is None:
            return None
        return CapacityReservationSelectorTerm(
            id=target.capacity_reservation_id,
            reservation_group_arn=target.capacity_reservation_resource_group_arn,
        )


class NodeClassSpec(Model):
    """What to select and how to launch."""

    capacity_reservation_selector_terms: list[ReservationTerm] = Field(
        default_factory=list, max_length=MOST_TERMS
    )
    capacity_reservation_spec: ReservationSpec | None = None
    open_reservation_preference: (
        Annotated[OpenReservationPreference, Field(strict=False)] | None
    ) = Field(
        default=None,
        description="open lets plain on-demand launches fall into open reservations; default none.",
    )
    reclaim_group_arn: ReclaimGroupArn | None = Field(
        default=None,
        alias="reclaimGroupARN",
        description=(
            "A resource group of capacity reservations, of this class alone, at which on-demand nodes are launched."
            " Units that become free are split off into it, and EC2 moves nodes in without a restart."
        ),
    )
    lending: LendingSpec | None = Field(
        default=None,
        description=(
            "Lends idle units of its own on-demand reservations that carry reservoir:units-may-be-lent=true, and takes"
            " them back for work that waits; default: nothing is lent."
        ),
    )
    fleet_targeting_mode: Annotated[FleetTargetingMode, Field(strict=False)] = (
        FleetTargetingMode.LAUNCH_TEMPLATE
    )
    subnet_selector_terms: list[SubnetTerm] = Field(min_length=1, max_length=MOST_TERMS)
    security_group_selector_terms: list[SecurityGroupTerm] = Field(
        min_length=1, max_length=MOST_TERMS
    )
    ami_selector_terms: list[ImageTerm] = Field(min_length=1, max_length=MOST_TERMS)
    role: RoleName | None = None
    instance_profile: ProfileName | None = None
    user_data: (
        Annotated[
            str, Field(max_length=USER_DATA_BYTES_MAX), AfterValidator(_check_user_data)
        ]
        | None
    ) = Field(
        default=None,
        description=(
            "Passed on as written, except for placeholders such as {{reservoir.nodePool}}: "
            + ", ".join(PLACEHOLDERS)
            + ". Of at most 16 KiB."
        ),
    )
    block_device_mappings: list[BlockDeviceMapping] = Field(
        default_factory=list, max_length=50
    )
    metadata_options: MetadataOptions = MetadataOptions()
    tags: Annotated[
        dict[
            Annotated[str, AfterValidator(check_tag_key)],
            Annotated[str, Field(max_length=256)],
        ],
        BeforeValidator(without_nulls),
    ] = Field(default_factory=dict, max_length=_MOST_TAGS)
    placement_group_selector: PlacementGroupSelector | None = None
    detailed_monitoring: bool = False
    associate_public_ip_address: bool | None = Field(
        default=None, alias="associatePublicIPAddress"
    )
    connection_tracking: ConnectionTracking | None = None
    platform: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="EC2's platform name that reservations must have.",
    )
    tenancy: Literal["default", "dedicated"] = "default"
    ami_family: Annotated[Any, WithJsonSchema({"enum": [*AMI_FAMILIES, None]})] = Field(
        default=None,
        description=(
            "Decides about disks alone: which a class without blockDeviceMappings gets, and which is the node's"
            " ephemeral-storage. By default the alias's family. userData is passed on as written."
        ),
    )
    kubelet: Annotated[Any, WithJsonSchema({"type": ["object", "null"]})] = Field(
        default=None,
        description=(
            "What it keeps from replicas counts: maxPods, podsPerCore, and of kubeReserved, systemReserved and eviction"
            " thresholds cpu and memory. The rest has no effect outside Kubernetes."
        ),
    )
    instance_store_policy: Annotated[Any, WithJsonSchema({"enum": ["RAID0", None]})] = (
        Field(
            default=None,
            description="RAID0: local disks are the node's ephemeral-storage. It is for userData to make the array.",
        )
    )
    ip_prefix_count: Annotated[
        Any, IgnoredBecause("ipPrefixCount has no effect: it serves pod addresses")
    ] = None
    context: Annotated[Any, IgnoredBecause("context has no effect: EC2 reserves it")] = None
    network_interfaces: Annotated[
        Any, IgnoredBecause(f"networkInterfaces has no effect: {_INTERFACES}")
    ] = None
    cpu_options: Annotated[
        Any,
        RefusedBecause(
            "it changes what the instance types have, and replicas are packed by what EC2 says of them"
        ),
    ] = None
    enclave_options: Annotated[
        Any,
        RefusedBecause(
            "an enclave takes CPUs and memory from the instance that replicas are packed by",
            harmless=({"enabled": False},),
        ),
    ] = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check what excludes each other."""
        if raw.get("role") is not None and raw.get("instanceProfile") is not None:
            yield Contradiction("instanceProfile", "role", "cannot be combined with role")
        if raw.get("capacityReservationSpec") is not None:
            for name in ("capacityReservationSelectorTerms", "openReservationPreference"):
                if raw.get(name) is not None:
                    yield Contradiction(
                        "capacityReservationSpec",
                        "capacity-reservation-spec",
                        f"cannot be combined with {name}",
                    )
        if (
            raw.get("reclaimGroupARN") is not None
            and raw.get("openReservationPreference") == "open"
        ):
            yield Contradiction(
                "reclaimGroupARN",
                "reclaim-group",
                "cannot be combined with openReservationPreference: open, as EC2 takes one or the other",
            )
        if raw.get("networkInterfaces") is not None and not is_usual(
            raw["networkInterfaces"]
        ):
            yield Contradiction(
                "networkInterfaces", "not-served", f"is not served: {_INTERFACES}"
            )
        images = raw.get("amiSelectorTerms")
        terms = images if isinstance(images, list) else []
        if len(terms) > 1 and any(
            isinstance(term, dict) and term.get("alias") is not None for term in terms
        ):
            yield Contradiction(
                "amiSelectorTerms",
                "selector-term",
                "an alias cannot be combined with other terms",
            )

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that what the class names is what EC2 and Karpenter know by that name."""
        yield from _family_refusals(raw)
        policy = raw.get("instanceStorePolicy")
        if policy not in (None, "RAID0"):
            message = f"{shown(policy)} is not one of RAID0"
            yield Contradiction(
                "instanceStorePolicy", "instance-store-policy", message, lambda: "RAID0"
            )
        mappings = raw.get("blockDeviceMappings")
        given = mappings if isinstance(mappings, list) else []
        if (
            sum(isinstance(each, dict) and each.get("rootVolume") is True for each in given)
            > 1
        ):
            yield Contradiction(
                "blockDeviceMappings", "root-volume", "only one can be the rootVolume"
            )
        if text_in(raw, "platform").startswith("Windows"):
            yield Contradiction(
                "platform", "windows", f"Windows is not served: {NO_WINDOWS}"
            )
        if raw.get("kubelet") is not None:
            for message in kubelet_amounts.refusals(raw["kubelet"]):
                yield Contradiction("kubelet", "kubelet", message)
        path, slash, name = text_in(raw, "instanceProfile").rpartition("/")
        if slash and not path.startswith("arn:"):
            yield Contradiction(
                "instanceProfile",
                "iam-name",
                "must be a name without its path",
                lambda: name or None,
            )

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield fields that have another meaning here, and what an alias selects, for users who come from a cluster."""
        if self.instance_store_policy is not None:
            yield (
                "instanceStorePolicy",
                "local disks count as ephemeral-storage; userData makes the array of them",
            )
        if kubelet_amounts.is_ignored(self.kubelet):
            yield "kubelet", kubelet_amounts.NOTE
        of_kubernetes = (
            self.ami_family,
            self.kubelet,
            self.instance_store_policy,
            self.ip_prefix_count,
        )
        tags = [term.tags for term in self.subnet_selector_terms]
        tags += [term.tags for term in self.security_group_selector_terms]
        keys = list(chain.from_iterable(each or () for each in tags))
        if any(field is not None for field in of_kubernetes) or any(
            map(_IS_OF_A_CLUSTER, keys)
        ):
            for term in self.ami_selector_terms:
                note = note_on_alias(term.alias or "")
                if note is not None:
                    yield "amiSelectorTerms", note

    @property
    def family(self) -> str:
        """The family of the class's images in lower case, as far as the class names it."""
        named = self.ami_family if self.ami_family in AMI_FAMILIES else None
        aliases = [term.alias for term in self.ami_selector_terms if term.alias is not None]
        return str(named or (aliases[0].partition("@")[0] if aliases else "")).lower()

    @property
    def root_volume_bytes(self) -> int | None:
        """The size of the volume that replicas write to; None where it is not known."""
        mappings = self.block_device_mappings
        marked = [mapping for mapping in mappings if mapping.root_volume]
        of_family = [
            mapping
            for mapping in mappings
            if mapping.device_name in storage_devices(self.family)
        ]
        last = mappings[-1:] if self.family == "custom" else []
        sizes = [mapping.ebs.size_bytes for mapping in (*marked, *(last or of_family))]
        return next((size for size in sizes if size is not None), None)

    @property
    def role_name(self) -> str | None:
        """The role without its ARN and path, as IAM and EC2 ask for it."""
        return None if self.role is None else self.role.rpartition("/")[2]


def _family_refusals(raw: Mapping[str, Any]) -> Iterator[Contradiction]:
    family = raw.get("amiFamily")
    if family is None:
        return
    if family not in AMI_FAMILIES:
        message = f"{shown(family)} is not one of {', '.join(AMI_FAMILIES)}"
        yield Contradiction(
            "amiFamily", "ami-family", message, lambda: closest(str(family), AMI_FAMILIES)
        )
    elif family.startswith("Windows"):
        yield Contradiction("amiFamily", "windows", f"Windows is not served: {NO_WINDOWS}")
    terms = raw.get("amiSelectorTerms")
    aliases = (
        [text_in(term, "alias") for term in terms if isinstance(term, dict)]
        if isinstance(terms, list)
        else []
    )
    for alias in filter(None, aliases):
        of_alias = alias.partition("@")[0]
        if family in AMI_FAMILIES and family.lower() not in ("custom", of_alias):
            message = (
                f"{family} is not the family of {shown(alias)}; leave it out, or say Custom"
            )
            yield Contradiction("amiFamily", "ami-family", message)


class NodeClassManifest(Model):
    """A class."""

    api_version: Literal["karpenter.k8s.aws/v1"]
    kind: Literal["EC2NodeClass"]
    metadata: Metadata
    spec: NodeClassSpec
    status: ServerSide

    def to_core(self) -> NodeClass:
        """Return the class of the core, with an empty status."""
        spec = self.spec
        group = spec.placement_group_selector
        return NodeClass(
            name=self.metadata.name,
            capacity_reservation_selector_terms=self._reservation_terms(),
            subnet_selector_terms=tuple(
                term.to_core() for term in spec.subnet_selector_terms
            ),
            security_group_selector_terms=tuple(
                term.to_core() for term in spec.security_group_selector_terms
            ),
            ami_selector_terms=tuple(term.to_core() for term in spec.ami_selector_terms),
            role=spec.role_name,
            instance_profile=spec.instance_profile,
            user_data=spec.user_data,
            block_device_mappings=tuple(
                mapping.to_ec2() for mapping in spec.block_device_mappings
            )
            or default_disks(spec.family),
            root_volume_bytes=spec.root_volume_bytes,
            local_disks_are_storage=spec.instance_store_policy == "RAID0",
            kubelet=kubelet_amounts.amounts(spec.kubelet),
            metadata_options=spec.metadata_options.to_ec2(),
            tags=dict(sorted(spec.tags.items())),
            placement_group=None if group is None else group.id or group.name,
            detailed_monitoring=spec.detailed_monitoring,
            associate_public_ip_address=spec.associate_public_ip_address,
            connection_tracking={}
            if spec.connection_tracking is None
            else spec.connection_tracking.to_ec2(),
            open_reservation_preference=self._open_preference(),
            fleet_targeting_mode=spec.fleet_targeting_mode,
            platform=spec.platform or self._default_platform(),
            tenancy=spec.tenancy,
            reclaim_group_arn=spec.reclaim_group_arn,
            lending=None if spec.lending is None else spec.lending.to_core(),
            static_hash=self.static_hash(),
        )

    def _reservation_terms(self) -> tuple[CapacityReservationSelectorTerm, ...]:
        target = (
            None
            if self.spec.capacity_reservation_spec is None
            else self.spec.capacity_reservation_spec.to_term()
        )
        terms = tuple(
            term.to_core() for term in self.spec.capacity_reservation_selector_terms
        )
        return terms if target is None else (target,)

    def _open_preference(self) -> OpenReservationPreference:
        spec = self.spec.capacity_reservation_spec
        if spec is not None and spec.capacity_reservation_preference is not None:
            return OpenReservationPreference(spec.capacity_reservation_preference)
        return self.spec.open_reservation_preference or OpenReservationPreference.NONE

    def _default_platform(self) -> str:
        windows = any(
            (term.alias or "").startswith("windows")
            for term in self.spec.ami_selector_terms
        )
        return "Windows" if windows else "Linux/UNIX"

    def static_hash(self) -> str:
        """Hash what a running instance was launched with; selector terms are not part of it (R-154)."""
        spec = self.spec
        tracking = (
            {} if spec.connection_tracking is None else spec.connection_tracking.to_ec2()
        )
        return static_hash(
            {
                **({"connectionTracking": tracking} if tracking else {}),
                "role": spec.role_name,
                "instanceProfile": spec.instance_profile,
                "userData": spec.user_data,
                "blockDeviceMappings": [
                    mapping.to_ec2() for mapping in spec.block_device_mappings
                ],
                "metadataOptions": spec.metadata_options.to_ec2(),
                "tags": spec.tags,
                "placementGroup": None
                if spec.placement_group_selector is None
                else spec.placement_group_selector.model_dump(exclude_none=True),
                "detailedMonitoring": spec.detailed_monitoring,
                "associatePublicIPAddress": spec.associate_public_ip_address,
                "tenancy": spec.tenancy,
            }
        )
