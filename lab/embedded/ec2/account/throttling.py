"""EC2's throttling: a bucket of tokens for the calls of each action, and another one for the instances of some.

Sizes are those of an account in a region (https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from lab.embedded.ec2.api.errors import Ec2Error

What = Literal["calls", "instances"]


@dataclass(frozen=True, slots=True)
class BucketSize:
    """So many at once, then so many a second."""

    at_once: float
    per_s: float


_NON_MUTATING: Final = BucketSize(100, 20)
_UNFILTERED: Final = BucketSize(50, 10)
_MUTATING: Final = BucketSize(50, 5)
_SALE_OF_BLOCKS: Final = BucketSize(10, 0.15)

_NON_MUTATING_PREFIXES: Final = ("Describe", "Get", "List", "Search")
# These have a smaller bucket for calls that neither filter nor ask for a page.
_CAN_BE_UNFILTERED: Final = frozenset(
    {
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeNetworkInterfaces",
        "DescribeSecurityGroups",
        "DescribeSnapshots",
        "DescribeSpotInstanceRequests",
        "DescribeVolumes",
    }
)
_OWN_SIZES: Final[Mapping[str, BucketSize]] = {
    "CreateLaunchTemplateVersion": BucketSize(100, 5),
    "CreateNetworkInterface": BucketSize(100, 5),
    "CreateSnapshot": BucketSize(100, 5),
    "CreateTags": BucketSize(100, 10),
    "CreateVolume": BucketSize(100, 5),
    "CreateVpcEndpoint": BucketSize(4, 0.3),
    "DeleteNetworkInterface": BucketSize(100, 5),
    "DeleteSnapshot": BucketSize(100, 5),
    "DeleteTags": BucketSize(100, 10),
    "DeleteVolume": BucketSize(100, 5),
    "DescribeCapacityBlockExtensionOfferings": _SALE_OF_BLOCKS,
    "DescribeCapacityBlockOfferings": _SALE_OF_BLOCKS,
    "DescribeInstanceTopology": BucketSize(1, 1),
    "ModifyInstanceMetadataDefaults": BucketSize(2, 2),
    "ModifyInstanceMetadataOptions": BucketSize(100, 5),
    "ModifyLaunchTemplate": BucketSize(100, 5),
    "PurchaseCapacityBlock": _SALE_OF_BLOCKS,
    "PurchaseCapacityBlockExtension": _SALE_OF_BLOCKS,
    "RunInstances": BucketSize(5, 2),
    "StartInstances": BucketSize(5, 2),
    "TerminateInstances": BucketSize(100, 5),
}
_OF_INSTANCES: Final[Mapping[str, BucketSize]] = {
    "RunInstances": BucketSize(1000, 2),
    "StartInstances": BucketSize(1000, 2),
    "StopInstances": BucketSize(1000, 20),
    "TerminateInstances": BucketSize(1000, 20),
}
_PAGING: Final = ("MaxResults", "NextToken")


@dataclass
class Throttle:
    """What is left in the account's buckets."""

    account_id: str
    _sizes: dict[tuple[What, str], BucketSize] = field(default_factory=dict)
    """Sizes that are not the usual ones."""
    _left: dict[tuple[What, str, BucketSize], tuple[float, datetime]] = field(
        default_factory=dict
    )
    """Tokens and as of when, in each bucket that was ever used."""

    def resize(self, what: What, operation: str, size: BucketSize) -> None:
        """Give an action a full bucket of another size."""
        self._sizes[(what, operation)] = size

    def restore_sizes(self) -> None:
        """Give all actions their usual buckets again, with what was left in them."""
        self._sizes.clear()

    def take_call(
        self, operation: str, parameters: Mapping[str, Any], now: datetime
    ) -> None:
        """Take the token of one call.

        Raises
        ------
        Ec2Error
            ``RequestLimitExceeded``, when there is none.
        """
        size = self._sizes.get(("calls", operation)) or _size_of(operation, parameters)
        self._take("calls", operation, size, 1, now)

    def take_instances(self, operation: str, count: int, now: datetime) -> None:
        """Take a token for each instance that a call acts on.

        Raises
        ------
        Ec2Error
            ``RequestLimitExceeded``, when there are not so many.
        """
        size = self._sizes.get(("instances", operation), _OF_INSTANCES[operation])
        self._take("instances", operation, size, count, now)

    def take_launches(self, wanted: int, least: int, now: datetime) -> int:
        """Take tokens for the launches of a fleet, if there are ``least``; return for how many."""
        size = self._sizes.get(("instances", "RunInstances"), _OF_INSTANCES["RunInstances"])
        granted = min(wanted, int(self._tokens("instances", "RunInstances", size, now)))
        if granted < least:
            return 0
        self.take_instances("RunInstances", granted, now)
        return granted

    def refusal(self, what: What, operation: str) -> Ec2Error:
        """Return EC2's answer to what finds too few tokens."""
        rate = "request" if what == "calls" else "resource"
        return Ec2Error(
            "RequestLimitExceeded",
            # As in https://github.com/aws/karpenter-provider-aws/issues/8923; that of resources is a guess.
            f"Request limit exceeded. Account {self.account_id} has been throttled on ec2:{operation} because it "
            f"exceeded its {rate} rate limit.",
            503,
        )

    def _take(
        self, what: What, operation: str, size: BucketSize, count: int, now: datetime
    ) -> None:
        tokens = self._tokens(what, operation, size, now)
        if tokens < count:
            raise self.refusal(what, operation)
        self._left[(what, operation, size)] = (tokens - count, now)

    def _tokens(self, what: What, operation: str, size: BucketSize, now: datetime) -> float:
        left, at = self._left.get((what, operation, size), (size.at_once, now))
        return min(size.at_once, left + size.per_s * (now - at).total_seconds())


def _size_of(operation: str, parameters: Mapping[str, Any]) -> BucketSize:
    if operation in _OWN_SIZES:
        return _OWN_SIZES[operation]
    if not operation.startswith(_NON_MUTATING_PREFIXES):
        return _MUTATING
    narrows = parameters.get("Filters") or any(name in parameters for name in _PAGING)
    if operation in _CAN_BE_UNFILTERED and not narrows:
        return _UNFILTERED
    return _NON_MUTATING
