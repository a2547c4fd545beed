"""What the emulated EC2 answers when it refuses, and the marker of a response that never arrives."""

from typing import Final


class Ec2Error(Exception):
    """An EC2 API error: ``code`` and ``message`` as they appear in the error response."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class ResponseLostError(Exception):
    """The call took effect, but its answer is lost: whoever carries the answer drops the connection instead."""


FILTER_INVALID: Final = "InvalidParameterValue"
INSUFFICIENT_CAPACITY: Final = "InsufficientInstanceCapacity"
RESERVATION_EXCEEDED: Final = "ReservationCapacityExceeded"


def invalid_value(message: str) -> Ec2Error:
    """Return the error for a parameter whose value cannot be used."""
    return Ec2Error("InvalidParameterValue", message)


def invalid_combination(message: str) -> Ec2Error:
    """Return the error for parameters that exclude each other."""
    return Ec2Error("InvalidParameterCombination", message)


def not_permitted(message: str) -> Ec2Error:
    """Return the error for what the state or the terms of a thing do not allow."""
    return Ec2Error("OperationNotPermitted", message)


def wrong_reservation_state(message: str) -> Ec2Error:
    """Return the error for a reservation that is in no state for the call."""
    return Ec2Error("InvalidCapacityReservationState", message)


def reservation_not_found(reservation_id: str) -> Ec2Error:
    """Return the error for a reservation that does not exist or is not shared with the caller."""
    return Ec2Error(
        "InvalidCapacityReservationId.NotFound",
        f"The capacity reservation ID '{reservation_id}' does not exist",
    )


def reservation_exceeded() -> Ec2Error:
    """Return the error for a targeted reservation without a free, compatible slot."""
    return Ec2Error(
        RESERVATION_EXCEEDED,
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )


def insufficient_capacity(instance_type: str, zone: str) -> Ec2Error:
    """Return the error for a capacity pool that has no hardware left."""
    return Ec2Error(
        INSUFFICIENT_CAPACITY,
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
        f"({zone}).",
        status=500,
    )
