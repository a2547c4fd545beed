"""Disks by family of images: Karpenter's defaults (its user guide, "spec.blockDeviceMappings")."""

from collections.abc import Mapping
from typing import Final

_ROOT: Final = "/dev/xvda"
_BOTTLEROCKET_DATA: Final = "/dev/xvdb"  # its first disk holds the system alone
_SYSTEM_GIB: Final = 4
_DEFAULT_GIB: Final = 20


def default_disks(family: str) -> tuple[Mapping[str, object], ...]:
    """Return the disks of a class that names none, in EC2's own shape; none where the image decides."""
    if family in ("al2", "al2023"):
        return (_disk(_ROOT, _DEFAULT_GIB),)
    if family == "bottlerocket":
        return _disk(_ROOT, _SYSTEM_GIB), _disk(_BOTTLEROCKET_DATA, _DEFAULT_GIB)
    return ()


def storage_devices(family: str) -> tuple[str, ...]:
    """Return the devices that may hold what replicas write, by the family of the images."""
    if family in ("al2", "al2023"):
        return (_ROOT,)
    return (_BOTTLEROCKET_DATA,) if family == "bottlerocket" else (_ROOT, "/dev/sda1")


def _disk(device: str, gib: int) -> Mapping[str, object]:
    return {
        "DeviceName": device,
        "Ebs": {"Encrypted": True, "VolumeSize": gib, "VolumeType": "gp3"},
    }
