"""Codes decide: each in one set, each with its kind and its type."""

import itertools

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from reservoir.adapters import aws_errors
from reservoir.adapters.aws_errors import launch_error_kind, map_client_errors
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

SETS = {name: value for name, value in vars(aws_errors).items() if name.endswith("_CODES")}


def test_no_code_stands_in_two_sets() -> None:
    for (first, ours), (second, theirs) in itertools.combinations(sorted(SETS.items()), 2):
        assert not ours & theirs, f"{first} and {second}"


KINDS = {
    "INSUFFICIENT_CAPACITY_CODES": LaunchErrorKind.INSUFFICIENT_CAPACITY,
    "RESERVATION_EXHAUSTED_CODES": LaunchErrorKind.RESERVATION_EXHAUSTED,
    "RESERVATION_UNUSABLE_CODES": LaunchErrorKind.RESERVATION_UNUSABLE,
    "QUOTA_CODES": LaunchErrorKind.QUOTA,
    "TYPE_QUOTA_CODES": LaunchErrorKind.TYPE_QUOTA,
    "SUBNET_FULL_CODES": LaunchErrorKind.SUBNET_FULL,
    "UNSUPPORTED_CODES": LaunchErrorKind.UNSUPPORTED,
    "SPOT_NOT_PERMITTED_CODES": LaunchErrorKind.SPOT_NOT_PERMITTED,
    "TEMPLATE_MISSING_CODES": LaunchErrorKind.TEMPLATE_MISSING,
    "CONFIGURATION_CODES": LaunchErrorKind.CONFIGURATION,
    "PERMISSION_CODES": LaunchErrorKind.PERMISSION,
    "THROTTLE_CODES": LaunchErrorKind.TRANSIENT,
    "SERVICE_TROUBLE_CODES": LaunchErrorKind.TRANSIENT,
}
# About other calls than launches, or an error of ours.
NO_KINDS = {
    "DRY_RUN_CODES",
    "IDEMPOTENCY_CODES",
    "INSTANCE_MISSING_CODES",
    "PRINCIPAL_MISSING_CODES",
    "TEMPLATE_EXISTS_CODES",
}


def test_every_set_is_a_kind_of_refusal_and_every_kind_has_a_set() -> None:
    assert SETS.keys() == KINDS.keys() | NO_KINDS
    assert {code: launch_error_kind(code) for name in KINDS for code in SETS[name]} == {
        code: kind for name, kind in KINDS.items() for code in SETS[name]
    }
    assert set(KINDS.values()) | {LaunchErrorKind.UNKNOWN} == set(LaunchErrorKind)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientInstanceCapacity", LaunchErrorKind.INSUFFICIENT_CAPACITY),
        ("UnfulfillableCapacity", LaunchErrorKind.INSUFFICIENT_CAPACITY),
        ("MaxFleetCountExceeded", LaunchErrorKind.INSUFFICIENT_CAPACITY),  # S-65
        ("SpotMaxPriceTooLow", LaunchErrorKind.INSUFFICIENT_CAPACITY),
        ("ReservationCapacityExceeded", LaunchErrorKind.RESERVATION_EXHAUSTED),  # S-59
        ("InvalidCapacityReservationId.NotFound", LaunchErrorKind.RESERVATION_UNUSABLE),
        (
            "InvalidCapacityReservationState.PendingActivation",
            LaunchErrorKind.RESERVATION_UNUSABLE,
        ),
        ("MaxSpotInstanceCountExceeded", LaunchErrorKind.QUOTA),
        ("VcpuLimitExceeded", LaunchErrorKind.QUOTA),
        ("InstanceLimitExceeded", LaunchErrorKind.TYPE_QUOTA),
        ("InsufficientFreeAddressesInSubnet", LaunchErrorKind.SUBNET_FULL),
        ("Unsupported", LaunchErrorKind.UNSUPPORTED),
        ("InvalidLaunchTemplateName.NotFoundException", LaunchErrorKind.TEMPLATE_MISSING),
        ("InvalidLaunchTemplateId.VersionNotFound", LaunchErrorKind.TEMPLATE_MISSING),
        ("InvalidAMIID.NotFound", LaunchErrorKind.CONFIGURATION),
        ("InvalidParameterValue", LaunchErrorKind.CONFIGURATION),
        ("InvalidLaunchTargets", LaunchErrorKind.CONFIGURATION),
        ("UnauthorizedOperation", LaunchErrorKind.PERMISSION),
        ("PendingVerification", LaunchErrorKind.PERMISSION),
        # S-64
        (
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            LaunchErrorKind.SPOT_NOT_PERMITTED,
        ),
        ("RequestLimitExceeded", LaunchErrorKind.TRANSIENT),
        ("InternalError", LaunchErrorKind.TRANSIENT),
        ("SomethingNew", LaunchErrorKind.UNKNOWN),
    ],
)
def test_what_a_code_means_for_a_launch(code: str, kind: LaunchErrorKind) -> None:
    assert launch_error_kind(code) is kind


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("RequestLimitExceeded", 503, ThrottledError),
        ("InternalError", 500, UnknownOutcomeError),
        ("IdempotentParameterMismatch", 400, IdempotencyMismatchError),
        ("InvalidInstanceID.NotFound", 400, NotFoundError),
        ("InvalidLaunchTemplateName.AlreadyExistsException", 400, AlreadyExistsError),
        ("UnauthorizedOperation", 403, AccessDeniedError),
        ("InvalidParameterValue", 400, ConfigurationError),
        ("InsufficientInstanceCapacity", 400, RefusedError),
        ("Brand.New", 400, RefusedError),
        ("Brand.New", 502, UnknownOutcomeError),
    ],
)
def test_codes_become_types(code: str, status: int, kind: type[AwsError]) -> None:
    answer = {
        "Error": {"Code": code, "Message": "never looked at"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    with pytest.raises(AwsError) as caught, map_client_errors():
        raise ClientError(answer, "CreateFleet")  # type: ignore[arg-type] # the stub asks for every member
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.operation) == (code, "CreateFleet")


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="https://ec2"),
        ConnectTimeoutError(endpoint_url="https://ec2"),
    ],
)
def test_a_broken_connection_is_an_unknown_outcome(error: Exception) -> None:
    with pytest.raises(UnknownOutcomeError), map_client_errors():
        raise error


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), map_client_errors():
        _ = 1 / 0
