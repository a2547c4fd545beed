"""Which reservations an account may change."""

from lab.embedded.ec2.account.state import CapacityReservation, ReservationKind
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, not_permitted


def own_plain(world: World, reservation_id: str) -> CapacityReservation:
    """Return an on-demand reservation of this account.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    reservation = world.reservation(reservation_id)
    if reservation.owner_id != world.account_id:
        raise Ec2Error(
            "UnauthorizedOperation",
            "You are not the owner of this capacity reservation.",
            403,
        )
    if reservation.kind is not ReservationKind.ON_DEMAND:
        raise not_permitted(
            f"A capacity reservation of the kind {reservation.kind} cannot be changed this way."
        )
    return reservation
