"""What a deployment lets launches do, and what EC2NodeClasses ask for beyond that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from reservoir.core.model.node_class import NodeClass

_ALIAS: Final = "alias/"


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """Permissions of launches, as far as a class can ask for more. ``kms_keys`` are ARNs."""

    kms_keys: tuple[str, ...] = ()
    tokens_required: bool = True


class Excess(NamedTuple):
    """Something that a class asks for and launches may not do."""

    path: tuple[str | int, ...]
    rule: str
    message: str
    suggestion: str | None


def excesses(node_class: NodeClass, limits: LaunchLimits) -> Iterator[Excess]:
    """Yield what launches of the class would be refused for."""
    if (
        limits.tokens_required
        and node_class.metadata_options.get("HttpTokens") == "optional"
    ):
        reason = "the deployment lets instances read their metadata by token only (metadataHttpTokens: required)"
        message = f"the class can never launch because {reason}"
        yield Excess(
            ("spec", "metadataOptions", "httpTokens"),
            "metadata-tokens",
            message,
            "required",
        )
    for index, mapping in enumerate(node_class.block_device_mappings):
        volume = mapping.get("Ebs")
        key = volume.get("KmsKeyId") if isinstance(volume, Mapping) else None
        if isinstance(key, str) and not _is_known(key, limits.kms_keys):
            yield Excess(
                ("spec", "blockDeviceMappings", index, "ebs", "kmsKeyID"),
                "kms-key",
                _about(key),
                _nearest(limits),
            )


def _is_known(key: str, arns: tuple[str, ...]) -> bool:
    return key in arns or any(arn.rsplit("/", 1)[-1] == key for arn in arns)


def _about(key: str) -> str:
    if _ALIAS in key:
        why = (
            "is an alias, and permissions are for keys: "
            "whether it is one of the deployment's (kmsKeys) is not known"
        )
    else:
        why = "is no key of the deployment (kmsKeys)"
    return f"{key} {why}; instances end before they run unless the key's own policy lets the launch role use it"


def _nearest(limits: LaunchLimits) -> str | None:
    return limits.kms_keys[0] if len(limits.kms_keys) == 1 else None
