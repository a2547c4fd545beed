"""How instances of an EC2NodeClass are configured: disks, metadata service, placement."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from reservoir.core.scheduling_terms.quantity import QuantityError, byte_count
from reservoir.manifests.parsing.fields import Quantity, an_id, broken
from reservoir.manifests.parsing.model import Contradiction, Model

_GIB: Final = 2**30
_LARGEST_VOLUME_GIB: Final = 65_536
# What Karpenter takes: a whole number and its unit, by unit the largest number.
_LARGEST_VOLUME: Final = {"Gi": 59_000, "G": 64_000, "Ti": 58, "T": 64}

OnOff = Literal["enabled", "disabled"]


def _check_volume_size(text: str) -> str:
    if not 1 <= volume_gib(text) <= _LARGEST_VOLUME_GIB:
        raise broken("volume-size", f"must be from 1Gi to {_LARGEST_VOLUME_GIB}Gi")
    return text


def _misread_size(value: Any) -> Contradiction | None:
    """Say what is wrong about a quantity within EC2's bounds that Karpenter does not take for a size."""
    text = str(value) if isinstance(value, int) else value
    try:
        gib = volume_gib(text) if isinstance(text, str) else 0
    except QuantityError:
        gib = 0
    if not 1 <= gib <= _LARGEST_VOLUME_GIB:
        return None  # the field itself says so
    found = re.fullmatch(r"([1-9][0-9]{0,4})(Gi|G|Ti|T)?", text)
    if found is None:
        message = "must be a whole number of Gi, G, Ti or T"
        return Contradiction("volumeSize", "volume-size", message, lambda: f"{gib}Gi")
    number, unit = found.groups()
    if unit is None:
        message = "needs its unit, Gi, G, Ti or T: a bare number would be bytes"
        return Contradiction("volumeSize", "volume-size", message, lambda: f"{number}Gi")
    largest = _LARGEST_VOLUME[unit]
    if int(number) > largest:
        return Contradiction(
            "volumeSize", "volume-size", f"must be from 1{unit} to {largest}{unit}"
        )
    return None


def volume_gib(text: str) -> int:
    """Whole GiB of a volume size, rounded up: a volume is never smaller than asked for."""
    return -(-byte_count(text) // _GIB)


class BlockDevice(Model):
    """An EBS volume."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: int | None = Field(default=None, ge=100, le=256_000)
    kms_key_id: str | None = Field(default=None, alias="kmsKeyID", max_length=2048)
    snapshot_id: (
        Annotated[
            str,
            an_id("snap"),
        ]
        | None
    ) = Field(default=None, alias="snapshotID")
    throughput: int | None = Field(default=None, ge=125, le=2_000, description="MiB/s.")
    volume_initialization_rate: int | None = Field(
        default=None, ge=100, le=300, description="MiB/s."
    )
    volume_size: Annotated[Quantity, AfterValidator(_check_volume_size)] | None = None
    volume_type: Literal["standard", "io1", "io2", "gp2", "gp3", "sc1", "st1"] | None = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that the volume has a size or a source."""
        if raw.get("snapshotID") is None and raw.get("volumeSize") is None:
            yield Contradiction(
                "volumeSize", "volume", "volumeSize or snapshotID is required"
            )
        if (
            raw.get("volumeInitializationRate") is not None
            and raw.get("snapshotID") is None
        ):
            yield Contradiction("volumeInitializationRate", "volume", "needs snapshotID")

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that the size is one that Karpenter reads: a bare number was bytes here, and is GiB to most people."""
        size = raw.get("volumeSize")
        wrong = None if size is None else _misread_size(size)
        if wrong is not None:
            yield wrong

    @property
    def size_bytes(self) -> int | None:
        """The size that is asked for; that of a snapshot is not known."""
        return None if self.volume_size is None else volume_gib(self.volume_size) * _GIB

    def to_ec2(self) -> dict[str, object]:
        """Return EC2's Ebs structure."""
        return _given(
            DeleteOnTermination=self.delete_on_termination,
            Encrypted=self.encrypted,
            Iops=self.iops,
            KmsKeyId=self.kms_key_id,
            SnapshotId=self.snapshot_id,
            Throughput=self.throughput,
            VolumeInitializationRate=self.volume_initialization_rate,
            VolumeSize=None if self.volume_size is None else volume_gib(self.volume_size),
            VolumeType=self.volume_type,
        )


class BlockDeviceMapping(Model):
    """A disk of the instance."""

    device_name: Annotated[str, Field(min_length=1, max_length=64)]
    ebs: BlockDevice
    root_volume: bool | None = Field(
        default=None,
        description="Whether its size is the node's ephemeral-storage; else the family's device is it.",
    )

    def to_ec2(self) -> dict[str, object]:
        """Return EC2's BlockDeviceMapping."""
        return {"DeviceName": self.device_name, "Ebs": self.ebs.to_ec2()}


class MetadataOptions(Model):
    """The instance metadata service; Karpenter's defaults: on, IPv4, one hop, tokens required."""

    http_endpoint: OnOff = "enabled"
    http_protocol_ipv6: OnOff = Field(default="disabled", alias="httpProtocolIPv6")
    http_put_response_hop_limit: int = Field(default=1, ge=1, le=64)
    http_tokens: Literal["required", "optional"] = "required"

    def to_ec2(self) -> dict[str, object]:
        """Return EC2's MetadataOptions."""
        return {
            "HttpEndpoint": self.http_endpoint,
            "HttpProtocolIpv6": self.http_protocol_ipv6,
            "HttpPutResponseHopLimit": self.http_put_response_hop_limit,
            "HttpTokens": self.http_tokens,
        }


class ConnectionTracking(Model):
    """How long security groups remember idle connections, in seconds; what is left out has EC2's default."""

    tcp_established_timeout: int | None = Field(default=None, ge=60, le=432_000)
    udp_stream_timeout: int | None = Field(default=None, ge=60, le=180)
    udp_timeout: int | None = Field(default=None, ge=30, le=60)

    def to_ec2(self) -> dict[str, object]:
        """Return EC2's ConnectionTrackingSpecification."""
        return _given(
            TcpEstablishedTimeout=self.tcp_established_timeout,
            UdpStreamTimeout=self.udp_stream_timeout,
            UdpTimeout=self.udp_timeout,
        )


def is_usual(interfaces: object) -> bool:
    """Whether interfaces are those that nodes get anyhow: a plain one on card 0, and efa-only ones on other cards."""
    if not isinstance(interfaces, list):
        return False
    for index, interface in enumerate(interfaces):
        if not isinstance(interface, dict) or set(interface) - {
            "networkCardIndex",
            "deviceIndex",
            "interfaceType",
        }:
            return False
        on_primary = interface.get("networkCardIndex") == 0
        if on_primary != (index == 0) or interface.get("interfaceType") != (
            "interface" if on_primary else "efa-only"
        ):
            return False
    return True


class PlacementGroupSelector(Model):
    """The placement group of all instances of the class, by name or id."""

    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    id: Annotated[str, an_id("pg")] | None = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that exactly one is given."""
        if (raw.get("name") is None) == (raw.get("id") is None):
            yield Contradiction("", "placement-group", "needs exactly one of name and id")


def check_tag_key(key: str) -> str:
    """Refuse tag keys that EC2 or the product owns; raises PydanticCustomError, as a validator of pydantic's does."""
    if not 1 <= len(key) <= 128:
        raise broken("tag", "a tag key has 1 to 128 characters")
    if (
        re.match(r"(aws:|reservoir:|kubernetes\.io/cluster)", key, re.IGNORECASE)
        or key in _OWN_TAGS
    ):
        raise broken("tag-restricted", "is set by EC2, Kubernetes or Reservoir itself")
    return key


_OWN_TAGS: Final = frozenset(
    {
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "eks:eks-cluster-name",
    }
)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
