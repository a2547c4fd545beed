"""What EC2 takes of a future-dated reservation, and what its owner has committed to.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-create.html and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-modify.html have the rules and name no error
codes: the general ones are used.
"""

import re
from datetime import datetime, timedelta
from typing import Any, Final

from lab.embedded.ec2.account.state import CapacityReservation
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import (
    Ec2Error,
    invalid_combination,
    invalid_value,
    not_permitted,
)
from lab.embedded.ec2.market.catalogue import instance_types

Parameters = dict[str, Any]

_SOONEST: Final = timedelta(days=5)
_LATEST: Final = timedelta(days=120)
_MINIMUM_VCPUS: Final = 32
_COMMITMENT: Final = timedelta(days=14)
_LONG_COMMITMENT: Final = timedelta(weeks=12)
# Series as https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html lists them: Gr, Im, Inf, Is,
# Mac and Trn are series of their own. API reference and service model name the first six alone.
_SERIES: Final = frozenset({"c", "g", "i", "m", "r", "t", "u", "x"})
_SERIES_OF_LONG_COMMITMENT: Final = frozenset({"u", "x"})
# What only a future-dated reservation has, and must have.
_OWN_PARAMETERS: Final = ("CommitmentDuration", "DeliveryPreference")
_NOT_SUPPORTED: Final = ("OutpostArn", "PlacementGroupArn")


def check_request(world: World, parameters: Parameters) -> None:
    """Refuse what EC2 takes of no future-dated reservation, and what belongs to such a one alone.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``, ``MissingParameter``.
    """
    if "StartDate" not in parameters:
        for name in _OWN_PARAMETERS:
            if name in parameters:
                raise invalid_combination(
                    f"{name} belongs to a future-dated capacity reservation, which has a StartDate."
                )
        return
    for name in _OWN_PARAMETERS:
        if name not in parameters:
            raise Ec2Error(
                "MissingParameter",
                f"A future-dated capacity reservation requires the parameter {name}.",
            )
    for name in _NOT_SUPPORTED:
        if name in parameters:
            raise invalid_combination(
                f"{name} is not supported for future-dated capacity reservations."
            )
    _check_values(world, parameters)


def commit(reservation: CapacityReservation, commitment_s: int) -> None:
    """Note what the owner of a future-dated reservation commits to."""
    reservation.original_start_at = reservation.start_at
    reservation.commitment_s = commitment_s
    reservation.commitment_end_at = reservation.start_at + timedelta(seconds=commitment_s)
    reservation.committed_count = reservation.planned_count


def waive(reservation: CapacityReservation) -> None:
    """Waive the commitment, as EC2 does once it cannot deliver in time."""
    reservation.commitment_s = 0
    reservation.commitment_end_at = None


def is_committed(world: World, reservation: CapacityReservation) -> bool:
    """Whether the owner has promised to keep it: from the day it is scheduled until the commitment has elapsed."""
    return (
        reservation.state in {"scheduled", "active"}
        and reservation.commitment_end_at is not None
        and world.now() < reservation.commitment_end_at
    )


def refuse_within_commitment(
    world: World, reservation: CapacityReservation, what: str
) -> None:
    """Refuse to take capacity out of, or into, what is committed.

    Raises
    ------
    Ec2Error
        ``OperationNotPermitted``.
    """
    if is_committed(world, reservation):
        raise not_permitted(
            f"You cannot {what} a future-dated capacity reservation during its commitment duration."
        )


def check_count(world: World, reservation: CapacityReservation, count: int) -> None:
    """Refuse fewer units than were committed to.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if is_committed(world, reservation) and count < reservation.committed_count:
        raise invalid_value(
            "The instance count cannot decrease below the committed instance count of "
            f"{reservation.committed_count} during the commitment duration."
        )


def check_end(reservation: CapacityReservation, end_at: datetime | None) -> None:
    """Refuse an end within the commitment, and so one before the start.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    commitment_end_at = reservation.commitment_end_at
    if end_at and commitment_end_at and end_at < commitment_end_at:
        raise invalid_value(
            "The end date of a future-dated capacity reservation cannot be within its commitment duration."
        )


def _check_values(world: World, parameters: Parameters) -> None:
    lead = parameters["StartDate"] - world.now()
    if not _SOONEST <= lead <= _LATEST:
        raise invalid_value(
            "A future-dated capacity reservation starts between 5 and 120 days from now."
        )
    instance_type = parameters["InstanceType"]
    series = re.split(r"[\d-]", instance_type, maxsplit=1)[0]
    if series not in _SERIES:
        raise invalid_value(
            f"Future-dated capacity reservations are not supported for the instance type {instance_type}."
        )
    vcpus = instance_types()[instance_type]["VCpuInfo"]["DefaultVCpus"]
    if vcpus * parameters["InstanceCount"] < _MINIMUM_VCPUS:
        raise invalid_value(
            f"A future-dated capacity reservation must cover at least {_MINIMUM_VCPUS} vCPUs."
        )
    if parameters.get("InstanceMatchCriteria", "open") != "targeted":
        raise invalid_value("A future-dated capacity reservation must be targeted.")
    if parameters["DeliveryPreference"] != "incremental":
        raise invalid_value("The only supported delivery preference is incremental.")
    minimum = _LONG_COMMITMENT if series in _SERIES_OF_LONG_COMMITMENT else _COMMITMENT
    if parameters["CommitmentDuration"] < minimum.total_seconds():
        raise invalid_value(
            f"The commitment duration for {instance_type} is at least {minimum.days} days."
        )
