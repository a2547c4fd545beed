"""AWS error codes, each in exactly one named set, and their way into typed errors.

The tree of errors is drawn in :mod:`reservoir.ports.errors`. Codes decide, texts never do: texts change without notice
and some are encoded. A code in no set is a plain refusal for most calls. As the outcome of a launch it is unknown: the
launch is tried again a few times before its offering rests.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import (
    ClientError,
    HTTPClientError,
)
from botocore.exceptions import (
    ConnectionError as BotocoreConnectionError,
)

from reservoir.core.launching.launch_outcome import LaunchErrorKind
from reservoir.ports.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AwsError,
    ConfigurationError,
    IdempotencyMismatchError,
    NotFoundError,
    RefusedError,
    ThrottledError,
    UnknownOutcomeError,
)

# Too many calls. The call had no effect; back off and repeat it. Never a sign of missing capacity.
THROTTLE_CODES: Final = frozenset(
    {
        "EC2ThrottledException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
# AWS's own trouble: the call may or may not have had its effect.
SERVICE_TROUBLE_CODES: Final = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "Unavailable",
    }
)

# --- capacity: the offering rests, the next one is tried
INSUFFICIENT_CAPACITY_CODES: Final = frozenset(
    {
        "InsufficientCapacityOnHost",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientVolumeCapacity",  # EBS has no room in the zone
        "MaxFleetCountExceeded",  # of one pool: only that pool rests (S-65)
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
    }
)
RESERVATION_EXHAUSTED_CODES: Final = frozenset({"ReservationCapacityExceeded"})
# Gone, unshared, or not started yet: the reservation must be discovered again.
RESERVATION_UNUSABLE_CODES: Final = frozenset(
    {
        "InvalidCapacityReservationId.Malformed",
        "InvalidCapacityReservationId.NotFound",
        "InvalidCapacityReservationState",
        "InvalidCapacityReservationState.PendingActivation",
    }
)
# The account's quota for a group of families in a market: their other types and zones would refuse as well.
QUOTA_CODES: Final = frozenset({"MaxSpotInstanceCountExceeded", "VcpuLimitExceeded"})
# the account's limit for one type
TYPE_QUOTA_CODES: Final = frozenset({"InstanceLimitExceeded"})
SUBNET_FULL_CODES: Final = frozenset({"InsufficientFreeAddressesInSubnet"})
UNSUPPORTED_CODES: Final = frozenset({"Unsupported", "UnsupportedOperation"})

# --- what a class asks for does not work: in the pools that EC2 names, or at all (``launch_outcome.OF_THE_CLASS``)
CONFIGURATION_CODES: Final = frozenset(
    {
        "CustomerKeyHasBeenRevoked",
        "EncryptedVolumesNotSupported",
        "InstanceCreditSpecification.NotSupported",
        "InvalidAMIID.Malformed",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidAvailabilityZone",
        "InvalidBlockDeviceMapping",
        "InvalidFleetConfig",
        "InvalidFleetConfiguration",
        "InvalidGroup.NotFound",
        "InvalidGroupId.Malformed",
        "InvalidIamInstanceProfileArn.Malformed",
        "InvalidInstanceType",
        "InvalidInterface.IpAddressLimitExceeded",
        "InvalidKey.Format",
        "InvalidKeyPair.Format",
        "InvalidKeyPair.NotFound",
        "InvalidLaunchTargets",
        "InvalidParameter",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidPlacementGroup.Unknown",
        "InvalidRequest",
        "InvalidSecurityGroupID.NotFound",
        "InvalidSnapshot.NotFound",
        "InvalidSnapshotID.Malformed",
        "InvalidSubnet",
        "InvalidSubnetID.NotFound",
        "InvalidTagKey.Malformed",
        "InvalidTenancy",
        "InvalidUserData.Malformed",
        "InvalidZone.NotFound",
        "MaxIOPSLimitExceeded",
        "MissingParameter",
        "NetworkInterfaceLimitExceeded",
        "PrivateIpAddressLimitExceeded",
        "SecurityGroupsPerInstanceLimitExceeded",
        "TagLimitExceeded",
        "UnknownVolumeType",
        "UnsupportedHibernationConfiguration",
        "UnsupportedInstanceAttribute",
        "UnsupportedTenancy",
        "ValidationError",
        "VPCIdNotSpecified",
        "VPCResourceNotSpecified",
        "VolumeLimitExceeded",
        "VolumeTypeNotAvailableInZone",
    }
)
SPOT_NOT_PERMITTED_CODES: Final = frozenset(
    {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
)
# We may not: stop and raise the alarm. UnauthorizedOperation's text is encoded, so no code could match it anyway.
PERMISSION_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AccountDisabled",
        "AuthFailure",
        "Blocked",
        "OptInRequired",
        "PendingVerification",
        "UnauthorizedOperation",
    }
)

# --- resources that are gone, or there already
TEMPLATE_MISSING_CODES: Final = frozenset(
    {
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.VersionNotFound",
        "InvalidLaunchTemplateName.NotFoundException",
    }
)
TEMPLATE_EXISTS_CODES: Final = frozenset(
    {"InvalidLaunchTemplateName.AlreadyExistsException"}
)
# Just after a launch this means "not visible yet" as well; the instance's age decides.
INSTANCE_MISSING_CODES: Final = frozenset(
    {"InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound"}
)
PRINCIPAL_MISSING_CODES: Final = frozenset({"NoSuchEntity"})  # of IAM
IDEMPOTENCY_CODES: Final = frozenset({"IdempotentParameterMismatch"})
DRY_RUN_CODES: Final = frozenset({"DryRunOperation"})  # it would have succeeded

_ENCODED: Final = "Encoded authorization failure message:"
_DETAIL_MAX: Final = 500

_TYPED: Final[tuple[tuple[frozenset[str], type[AwsError]], ...]] = (
    (THROTTLE_CODES, ThrottledError),
    (SERVICE_TROUBLE_CODES, UnknownOutcomeError),
    (IDEMPOTENCY_CODES, IdempotencyMismatchError),
    (
        TEMPLATE_MISSING_CODES | INSTANCE_MISSING_CODES | PRINCIPAL_MISSING_CODES,
        NotFoundError,
    ),
    (TEMPLATE_EXISTS_CODES, AlreadyExistsError),
    (PERMISSION_CODES | SPOT_NOT_PERMITTED_CODES, AccessDeniedError),
    (CONFIGURATION_CODES, ConfigurationError),
)

_LAUNCH_KINDS: Final[tuple[tuple[frozenset[str], LaunchErrorKind], ...]] = (
    (INSUFFICIENT_CAPACITY_CODES, LaunchErrorKind.INSUFFICIENT_CAPACITY),
    (RESERVATION_EXHAUSTED_CODES, LaunchErrorKind.RESERVATION_EXHAUSTED),
    (RESERVATION_UNUSABLE_CODES, LaunchErrorKind.RESERVATION_UNUSABLE),
    (QUOTA_CODES, LaunchErrorKind.QUOTA),
    (TYPE_QUOTA_CODES, LaunchErrorKind.TYPE_QUOTA),
    (SUBNET_FULL_CODES, LaunchErrorKind.SUBNET_FULL),
    (UNSUPPORTED_CODES, LaunchErrorKind.UNSUPPORTED),
    (SPOT_NOT_PERMITTED_CODES, LaunchErrorKind.SPOT_NOT_PERMITTED),
    (TEMPLATE_MISSING_CODES, LaunchErrorKind.TEMPLATE_MISSING),
    (CONFIGURATION_CODES, LaunchErrorKind.CONFIGURATION),
    (PERMISSION_CODES, LaunchErrorKind.PERMISSION),
    (THROTTLE_CODES | SERVICE_TROUBLE_CODES, LaunchErrorKind.TRANSIENT),
)


def launch_error_kind(code: str) -> LaunchErrorKind:
    """Return what a code means for a launch."""
    return next(
        (kind for codes, kind in _LAUNCH_KINDS if code in codes), LaunchErrorKind.UNKNOWN
    )


def error_code(error: ClientError) -> str:
    """Return AWS's code of an error."""
    return error.response.get("Error", {}).get("Code", "Unknown")


@contextmanager
def map_client_errors() -> Iterator[None]:
    """Turn botocore's errors into ours.

    A connection that breaks or times out is an unknown outcome: the request may have arrived.
    """
    try:
        yield
    except ClientError as error:
        raise _typed(error) from error
    except (BotocoreConnectionError, HTTPClientError) as error:
        raise UnknownOutcomeError(type(error).__name__, "connection") from error


def _typed(error: ClientError) -> AwsError:
    code, operation = error_code(error), error.operation_name
    detail = _for_people(error.response.get("Error", {}).get("Message", ""))
    for codes, kind in _TYPED:
        if code in codes:
            return kind(code, operation, detail)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status >= 500:
        return UnknownOutcomeError(code, operation, detail)
    return RefusedError(code, operation, detail)


def _for_people(message: str) -> str:
    """Return a message without what only ``sts decode-authorization-message`` can read, and not without end."""
    return message.partition(_ENCODED)[0].strip()[:_DETAIL_MAX]
