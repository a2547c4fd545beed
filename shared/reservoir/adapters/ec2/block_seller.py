"""EC2 as it sells Capacity Blocks, extensions and reservations: no call that buys is ever repeated by the client."""

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from reservoir.adapters.aws_errors import error_code, map_client_errors
from reservoir.adapters.ec2.reservation_changer import Ec2ReservationChanger
from reservoir.core.purchasing.purchase import BlockOrder
from reservoir.names import PURCHASE_TAG
from reservoir.ports.errors import UnknownOutcomeError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_WOULD_HAVE_SUCCEEDED: Final = "DryRunOperation"


class Ec2BlockSeller:
    """Implements ``reservoir.ports.capacity_blocks.BlockSeller``."""

    def __init__(self, buying: "EC2Client", reading: "EC2Client") -> None:
        """``buying`` must try once only: EC2's sales have no client token."""
        self._buying: Any = buying  # the stubs know fewer platforms than EC2 does
        self._reading = reading
        self._changer = Ec2ReservationChanger(buying, reading)

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        """Buy, once."""
        with map_client_errors():
            try:
                return self._buy(order)
            except ResponseParserError as error:
                raise UnknownOutcomeError(type(error).__name__, "purchase") from error

    def try_to_buy(self, order: BlockOrder) -> None:
        """Ask whether the caller may buy."""
        with map_client_errors():
            try:
                self._buy(order, DryRun=True)
            except ClientError as error:
                if error_code(error) != _WOULD_HAVE_SUCCEEDED:
                    raise

    def bought(self, order: BlockOrder) -> tuple[str, ...]:
        """Return what EC2 shows of the order: by its tag, in a history, or as the reservation is now."""
        if order.change is not None:
            return self._changer.carried_out(order, order.change)
        if order.extends is not None:
            return self._extended(order, order.extends)
        filters: Any = [{"Name": f"tag:{PURCHASE_TAG}", "Values": [order.offering_id]}]
        with map_client_errors():
            pages = self._reading.get_paginator("describe_capacity_reservations").paginate(
                Filters=filters
            )
            shown = list(pages.search("CapacityReservations[]"))
        return tuple(sorted(each["CapacityReservationId"] for each in shown))

    def _buy(self, order: BlockOrder, **more: bool) -> tuple[str, ...]:
        if order.change is not None:
            return self._changer.carry_out(order, order.change, **more)
        if order.extends is not None:
            self._buying.purchase_capacity_block_extension(
                CapacityBlockExtensionOfferingId=order.offering_id,
                CapacityReservationId=order.extends,
                **more,
            )
            return (order.extends,)
        tags = [*order.tags, (PURCHASE_TAG, order.offering_id)]
        answer = self._buying.purchase_capacity_block(
            CapacityBlockOfferingId=order.offering_id,
            InstancePlatform=order.platform,
            TagSpecifications=[
                {
                    "ResourceType": "capacity-reservation",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags],
                }
            ],
            **more,
        )
        ids: set[str] = set()
        for block in answer.get("CapacityBlocks", []):
            ids.update(block.get("CapacityReservationIds", []))
        reservation_id = answer.get("CapacityReservation", {}).get("CapacityReservationId")
        if reservation_id:
            ids.add(reservation_id)
        return tuple(sorted(ids))

    def _extended(self, order: BlockOrder, reservation_id: str) -> tuple[str, ...]:
        with map_client_errors():
            pages = self._reading.get_paginator(
                "describe_capacity_block_extension_history"
            ).paginate(CapacityReservationIds=[reservation_id])
            shown = list(pages.search("CapacityBlockExtensions[]"))
        is_bought = any(
            each.get("CapacityBlockExtensionOfferingId") == order.offering_id
            for each in shown
        )
        return (reservation_id,) if is_bought else ()
