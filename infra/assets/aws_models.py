"""What the layer carries of botocore's service models: the operations that the adapters call, and nothing else.

Botocore brings models of all of AWS (27 MiB) and looks through all of their folders before it makes its first client;
EC2's alone has 750 operations, and reading it costs a cold start as much as half of all imports. A client that is not
named here cannot be made in a function; ``tests/infra/test_aws_models.py`` reads the adapters and says what is missing.
"""

import gzip
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    # the command line's; no function asks it
    "cloudwatch": ("DescribeAlarms", "GetMetricData"),
    "dynamodb": (
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "DescribeTable",
        "GetItem",
        "PutItem",
        "Query",
        "Scan",
        "TransactWriteItems",
        "UpdateItem",
    ),
    "ec2": (
        "CancelCapacityReservation",  # by the command line alone, as below: no function may
        "CreateCapacityReservation",
        "CreateCapacityReservationBySplitting",
        "CreateCapacityReservationCancellationQuote",
        "CreateCapacityReservationDateChangeQuote",
        "CreateFleet",
        "CreateInterruptibleCapacityReservationAllocation",
        "CreateLaunchTemplate",
        "CreateTags",
        "DeleteLaunchTemplate",
        "DescribeAvailabilityZones",
        "DescribeCapacityBlockExtensionHistory",
        "DescribeCapacityBlockExtensionOfferings",
        "DescribeCapacityBlockOfferings",
        "DescribeCapacityBlockStatus",
        "DescribeCapacityBlocks",
        "DescribeCapacityReservationCancellationQuotes",
        "DescribeCapacityReservationTopology",
        "DescribeCapacityReservations",
        "DescribeImages",
        "DescribeInstanceStatus",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeLaunchTemplates",
        "DescribeSecurityGroups",
        "DescribeSpotPriceHistory",
        "DescribeSubnets",
        "ModifyCapacityReservation",
        "MoveCapacityReservationInstances",
        "PurchaseCapacityBlock",  # by the command line alone: no function may
        "PurchaseCapacityBlockExtension",
        "RunInstances",  # dry runs alone
        "TerminateInstances",
        "UpdateInterruptibleCapacityReservationAllocation",
    ),
    "events": ("PutEvents",),
    "iam": (
        "GetRole",
        "GetUser",
        "ListInstanceProfilesForRole",
    ),
    "pricing": ("GetProducts",),
    "resource-groups": ("GroupResources", "ListGroupResources"),
    "s3": ("GetObject", "PutObject"),
    "scheduler": ("CreateSchedule", "UpdateSchedule"),
    "sqs": (
        "ChangeMessageVisibilityBatch",
        "DeleteMessage",
        "GetQueueAttributes",
        "ReceiveMessage",
        "SendMessage",
        "SendMessageBatch",
    ),
    "ssm": ("GetParameters",),
    "sts": ("GetCallerIdentity",),
}

_NEVER_READ: Final = ("examples-*", "waiters-*")
_MODEL: Final = "service-2.json"


def trim(data: Path, operations: Mapping[str, Collection[str]] = OPERATIONS) -> None:
    """Leave in botocore's folder ``data`` what clients of these operations need. Raises KeyError for an unknown one."""
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        if folder.name not in operations:
            shutil.rmtree(folder)
    endpoint_prefixes = {
        _trim_service(data / service, operations[service]) for service in sorted(operations)
    }
    endpoints = _read(data / "endpoints.json")
    for partition in endpoints["partitions"]:
        partition["services"] = {
            name: service
            for name, service in partition["services"].items()
            if name in endpoint_prefixes
        }
    _write(data / "endpoints.json", endpoints)


def _trim_service(folder: Path, operations: Collection[str]) -> str:
    """Keep the newest version of a service's API, with these operations; return the service's endpoint prefix."""
    *outdated, newest = sorted(folder.iterdir())
    for version in outdated:
        shutil.rmtree(version)
    for pattern in _NEVER_READ:
        for path in newest.glob(pattern):
            path.unlink()
    model = _read(newest / _MODEL)
    model["operations"] = {
        name: _without_prose(model["operations"][name]) for name in sorted(operations)
    }
    shapes = {
        name: _bare_shape(model["shapes"][name]) for name in sorted(_reachable(model))
    }
    _write(newest / _MODEL, {**_without_prose(model), "shapes": shapes})
    prefix: str = model["metadata"]["endpointPrefix"]
    return prefix


def _reachable(model: Mapping[str, Any]) -> set[str]:
    """Return the shapes that the model's operations consist of."""
    waiting: list[str] = []
    for operation in model["operations"].values():
        references = (
            operation.get("input"),
            operation.get("output"),
            *operation.get("errors", ()),
        )
        waiting += [reference["shape"] for reference in references if reference is not None]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(
                reference["shape"] for reference in _references(model["shapes"][name])
            )
    return found


def _references(shape: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from shape.get("members", {}).values()
    yield from (shape[part] for part in ("member", "key", "value") if part in shape)


def _bare_shape(shape: Mapping[str, Any]) -> dict[str, Any]:
    bare = _without_prose(shape)
    if "members" in bare:
        bare["members"] = {
            name: _without_prose(member) for name, member in bare["members"].items()
        }
    return {
        **bare,
        **{
            part: _without_prose(bare[part])
            for part in ("member", "key", "value")
            if part in bare
        },
    }


def _without_prose(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "documentation"}


def _read(path: Path) -> dict[str, Any]:
    packed = path.with_name(f"{path.name}.gz")
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    content: dict[str, Any] = json.loads(text)
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write unpacked: the asset is compressed as a whole, and a cold start does not unpack once more."""
    path.with_name(f"{path.name}.gz").unlink(missing_ok=True)
    path.write_text(json.dumps(content, separators=(",", ":")))
