"""What instances say of themselves through the metadata service, and the account's defaults for it.

An option that a launch leaves open is the account's (EC2 user guide, "Order of precedence for instance metadata
options"). Where metadata show tags, EC2 refuses instances whose tag keys cannot be part of a path ("Work with instance
tags in instance metadata").
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import invalid_value

Parameters = dict[str, Any]
# also -1, of the hop limit: the account has no default any more
NO_PREFERENCE: Final = "no-preference"
_SHOWN_KEY: Final = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
_RESERVED_KEYS: Final = frozenset({".", "..", "_index"})


def options_of(world: World, asked: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the metadata options of a launch: what it asks for, then the account's defaults."""
    return {**world.metadata_defaults, **(asked or {})} or None


def refuse_tags_that_metadata_cannot_show(
    options: Mapping[str, Any] | None, tags: Mapping[str, str]
) -> None:
    """Refuse a launch whose tags its metadata would have to show, and cannot.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if (options or {}).get("InstanceMetadataTags") != "enabled":
        return
    for key in tags:
        if key.startswith("aws:"):
            continue  # AWS's own tags are left out of metadata
        if key in _RESERVED_KEYS or not _SHOWN_KEY.fullmatch(key):
            raise invalid_value(
                f"'{key}' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\\-_+=,.@:]{{1,255}}), and"
                " must not be a reserved name ('.', '..', '_index')"
            )


def modify_instance_metadata_defaults(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer ModifyInstanceMetadataDefaults."""
    for name in (
        "HttpTokens",
        "HttpPutResponseHopLimit",
        "HttpEndpoint",
        "InstanceMetadataTags",
    ):
        if name not in parameters:
            continue
        if parameters[name] in (NO_PREFERENCE, -1):
            world.metadata_defaults.pop(name, None)
        else:
            world.metadata_defaults[name] = parameters[name]
    return {"Return": True}


def get_instance_metadata_defaults(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer GetInstanceMetadataDefaults."""
    del parameters
    return {"AccountLevel": {**world.metadata_defaults, "ManagedBy": "account"}}
