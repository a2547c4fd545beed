"""The account's defaults for EBS encryption.

With encryption by default each volume is encrypted, with the account's default key where its launch names none (EBS
user guide, "Enable encryption by default"). AWS's own key serves everybody; one of the customer's must let them.
"""

from collections.abc import Mapping
from typing import Any

from lab.embedded.ec2.account.world import World

Parameters = dict[str, Any]


def key_of(world: World, ebs: Mapping[str, Any]) -> str | None:
    """Return the customer managed key of a volume, or None."""
    named: str | None = ebs.get("KmsKeyId")
    if named is not None:
        return named
    is_encrypted = world.encrypts_volumes or bool(ebs.get("Encrypted"))
    return world.default_volume_key if is_encrypted else None


def enable_ebs_encryption_by_default(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer EnableEbsEncryptionByDefault."""
    del parameters
    world.encrypts_volumes = True
    return {"EbsEncryptionByDefault": True}


def disable_ebs_encryption_by_default(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DisableEbsEncryptionByDefault."""
    del parameters
    world.encrypts_volumes = False
    return {"EbsEncryptionByDefault": False}


def get_ebs_encryption_by_default(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer GetEbsEncryptionByDefault."""
    del parameters
    return {"EbsEncryptionByDefault": world.encrypts_volumes}


def modify_ebs_default_kms_key_id(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer ModifyEbsDefaultKmsKeyId."""
    world.default_volume_key = parameters["KmsKeyId"]
    return {"KmsKeyId": world.default_volume_key}


def reset_ebs_default_kms_key_id(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer ResetEbsDefaultKmsKeyId."""
    del parameters
    world.default_volume_key = None
    return {"KmsKeyId": _aws_key(world)}


def get_ebs_default_kms_key_id(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer GetEbsDefaultKmsKeyId."""
    del parameters
    return {"KmsKeyId": world.default_volume_key or _aws_key(world)}


def _aws_key(world: World) -> str:
    return f"arn:aws:kms:{world.region}:{world.account_id}:alias/aws/ebs"
