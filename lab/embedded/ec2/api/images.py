"""A handful of machine images of today, in place of moto's 1,300 of yesterday (which take seconds to list)."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from moto.ec2.models.amis import Ami

AMAZON: Final = "137112412989"
_CREATED: Final = datetime(2026, 10, 27, 12, 0, tzinfo=UTC)
_MAJOR_ARCHITECTURES: Final = ("x86_64", "arm64")


@dataclass(frozen=True)
class Image:
    """A public image of Amazon's."""

    name: str
    architecture: str
    description: str
    platform: str | None = None

    @property
    def image_id(self) -> str:
        """The id, the same in every run."""
        return f"ami-0{hashlib.sha256(self.name.encode()).hexdigest()[:16]}"


def _al2023(architecture: str) -> Image:
    name = f"al2023-ami-2023.9.20261027.0-kernel-6.12-{architecture}"
    return Image(name, architecture, "Amazon Linux 2023 kernel-6.12 AMI")


def _al2(architecture: str) -> Image:
    name = f"amzn2-ami-kernel-5.10-hvm-2.0.20261020.0-{architecture}-gp2"
    return Image(name, architecture, "Amazon Linux 2 Kernel 5.10 AMI HVM gp2")


def _bottlerocket(architecture: str) -> Image:
    name = f"bottlerocket-aws-ecs-2-{architecture}-v1.50.0-1a2b3c4d"
    return Image(name, architecture, "bottlerocket-aws-ecs-2")


IMAGES: Final = (
    *map(_al2023, _MAJOR_ARCHITECTURES),
    *map(_al2, _MAJOR_ARCHITECTURES),
    *map(_bottlerocket, _MAJOR_ARCHITECTURES),
    *(
        Image(
            f"amazon-eks-node-al2023-{arch}-standard-1.34-v20261027",
            arch,
            "EKS-optimized Amazon Linux 2023",
        )
        for arch in _MAJOR_ARCHITECTURES
    ),
    *(
        Image(
            f"amazon-eks-node-al2023-x86_64-{kind}-1.34-v20261027",
            "x86_64",
            f"EKS-optimized for {kind} accelerators",
        )
        for kind in ("nvidia", "neuron")
    ),
    Image(
        "Windows_Server-2025-English-Full-Base-2026.10.14",
        "x86_64",
        "Microsoft Windows Server 2025",
        "windows",
    ),
)


def public_parameters() -> dict[str, str]:
    """Return AWS's public parameters of Systems Manager that name the newest of these images.

    Their names are those of https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters-ami.html
    and https://bottlerocket.dev/en/os/latest/#/install/quickstart/aws/ecs/.
    """
    linux = "/aws/service/ami-amazon-linux-latest"
    found = {}
    for architecture in _MAJOR_ARCHITECTURES:
        al2 = f"{linux}/amzn2-ami-kernel-5.10-hvm-{architecture}-gp2"
        bottlerocket = f"/aws/service/bottlerocket/aws-ecs-2/{architecture}/latest/image_id"
        found[f"{linux}/al2023-ami-kernel-default-{architecture}"] = _al2023(architecture)
        found[al2] = _al2(architecture)
        found[bottlerocket] = _bottlerocket(architecture)
    return {name: image.image_id for name, image in found.items()}


def images_of(backend: Any) -> dict[str, Ami]:
    """Return the images as moto keeps them, by id."""
    return {
        image.image_id: Ami(
            backend,
            image.image_id,
            name=image.name,
            description=image.description,
            owner_id=AMAZON,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture=image.architecture,
            creation_date=_CREATED,
            platform=image.platform,
            image_location=f"amazon/{image.name}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name="/dev/xvda",
            sriov="simple",
            region_name=f"{backend.region_name}a",
        )
        for image in IMAGES
    }
