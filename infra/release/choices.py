"""What a released template has only where somebody asks for it: a boundary, keys, functions in a VPC, a receiver.

The stack is synthesised twice, without and with all of them. What only the second has, or has otherwise, stands in the
template under the condition that a parameter is given.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

Json = Any

BOUNDARY: Final = "arn:aws:iam::123456789012:policy/BoundaryOfTheRelease"
KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/EncryptionKeyOfTheRelease"
VOLUME_KEYS: Final = "arn:aws:kms:us-east-1:123456789012:key/VolumeKeysOfTheRelease"
OTLP: Final = "https://otlp-endpoint.of-the-release"
SUBNETS: Final = "subnet-0fe1ea5e0fe1ea5e0"
SECURITY_GROUPS: Final = "sg-0fe1ea5e0fe1ea5e0"
# Of the second synthesis, beside what both have.
SETTINGS: Final[Mapping[str, object]] = {
    "permissionsBoundary": BOUNDARY,
    "encryptionKey": KEY,
    "kmsKeys": [VOLUME_KEYS],
    "otlpEndpoint": OTLP,
    "vpc": {"subnets": [SUBNETS], "securityGroups": [SECURITY_GROUPS]},
}
PARAMETERS: Final[Mapping[str, str]] = {
    BOUNDARY: "PermissionsBoundary",
    KEY: "EncryptionKey",
    VOLUME_KEYS: "VolumeKeys",
    OTLP: "OtlpEndpoint",
    SUBNETS: "FunctionSubnets",
    SECURITY_GROUPS: "FunctionSecurityGroups",
}
# Several values, with commas between them.
LISTS: Final = (VOLUME_KEYS, SUBNETS, SECURITY_GROUPS)
# Conditions by the parameter that must be given.
CONDITIONS: Final[Mapping[str, str]] = {
    "HasBoundary": "PermissionsBoundary",
    "HasEncryptionKey": "EncryptionKey",
    "HasVolumeKeys": "VolumeKeys",
    "HasOtlpEndpoint": "OtlpEndpoint",
    "HasVpc": "FunctionSubnets",
}
_OF_PLACEHOLDERS: Final = {
    BOUNDARY: "HasBoundary",
    VOLUME_KEYS: "HasVolumeKeys",
    OTLP: "HasOtlpEndpoint",
    "otlp-headers": "HasOtlpEndpoint",  # of the parameter that goes with it
    SUBNETS: "HasVpc",
}
_NOTHING: Final[Json] = {"Ref": "AWS::NoValue"}
_MISSING: Final[Any] = object()
_DEPENDS: Final = "DependsOn"


def merged(without: Mapping[str, Json], chosen: Mapping[str, Json]) -> dict[str, Json]:
    """Return a template that is ``without`` the choices, or ``chosen``, as its parameters say."""
    return {
        **without,
        "Resources": _sections(without["Resources"], chosen["Resources"]),
        "Outputs": _sections(without.get("Outputs", {}), chosen.get("Outputs", {})),
    }


def _sections(without: Mapping[str, Json], chosen: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, each in chosen.items():
        if name in without:
            found[name] = {**_mapping(without[name], each), **_dependencies(each)}
        else:
            # a policy of the functions' interfaces names no parameter
            condition = "HasVpc" if name.startswith("Vpc") else _condition_of(each)
            found[name] = {**each, "Condition": condition}
    return found


def _dependencies(resource: Json) -> dict[str, Json]:
    """Return what a resource waits for at most; CloudFormation leaves out what its condition leaves out."""
    return {_DEPENDS: resource[_DEPENDS]} if _DEPENDS in resource else {}


def _merged(without: Json, chosen: Json) -> Json:
    if without == chosen:
        return chosen
    if isinstance(without, dict) and isinstance(chosen, dict):
        return _mapping(without, chosen)
    if isinstance(without, list) and isinstance(chosen, list):
        return _list(without, chosen)
    return _if(chosen, without)


def _mapping(without: Mapping[str, Json], chosen: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key in [*chosen, *(key for key in without if key not in chosen)]:
        ours, theirs = without.get(key, _MISSING), chosen.get(key, _MISSING)
        if ours is _MISSING or theirs is _MISSING:
            found[key] = _if(theirs, ours)
        else:
            found[key] = _merged(ours, theirs)
    return found


def _list(without: list[Json], chosen: list[Json]) -> Json:
    """Return ``chosen`` with what ``without`` lacks under a condition; one list or the other where it lacks more."""
    found: list[Json] = []
    left = list(without)
    for each in chosen:
        if left and left[0] == each:
            found.append(left.pop(0))
        else:
            found.append(_if(each, _MISSING))
    return _if(chosen, without) if left else found


def _if(chosen: Json, without: Json) -> Json:
    given = _NOTHING if chosen is _MISSING else chosen
    otherwise = _NOTHING if without is _MISSING else without
    return {"Fn::If": [_condition_of(chosen), given, otherwise]}


def _condition_of(value: Json) -> str:
    text = "" if value is _MISSING else json.dumps(value)
    for placeholder, condition in _OF_PLACEHOLDERS.items():
        if placeholder in text:
            return condition
    # what a key comes with names it or not: the period of reuse, no encryption by SQS itself
    return "HasEncryptionKey"
