"""Elastic Fabric Adapters: which network interfaces an instance needs so that its replicas find them.

EC2 makes an EFA only where the launch asks for one, and attaches none to a running instance. So a claim whose replicas
request ``vpc.amazonaws.com/efa`` is launched with every EFA that its type has; any other claim is launched without, and
its node offers none: replicas that want one later get a node of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reservoir.core.scheduling_terms.resources import Resources

EFA: Final = "vpc.amazonaws.com/efa"
_PRIMARY_CARD: Final = 0


@dataclass(frozen=True, slots=True)
class EfaCard:
    """A network card that can carry an EFA. ``interface_count``: how many interfaces fit on it."""

    index: int
    interface_count: int


def wants_efa(requests: Resources) -> bool:
    """Whether requests, or the room of a claim, include an EFA."""
    return requests[EFA] > 0


def without_efa(room: Resources) -> Resources:
    """Return the room of a node that is launched without EFAs."""
    return Resources.of({name: amount for name, amount in room.items() if name != EFA})


def network_interfaces(
    cards: Sequence[EfaCard],
    security_group_ids: Sequence[str],
    associate_public_ip_address: bool | None,
) -> list[Mapping[str, object]]:
    """Return a launch template's network interfaces with an EFA on each of ``cards``.

    The primary interface carries IP traffic, and an EFA as well where its card can; all others carry nothing but their
    EFA and take no address (EC2 user guide, "Maximize network bandwidth on instances with multiple network cards").
    EC2 gives no public address to an instance with several interfaces, and refuses the request for one.
    """
    groups = {"Groups": list(security_group_ids)} if security_group_ids else {}
    common = {"DeleteOnTermination": True, **groups}
    on_primary = any(card.index == _PRIMARY_CARD for card in cards)
    primary: dict[str, object] = {
        "NetworkCardIndex": _PRIMARY_CARD,
        "DeviceIndex": 0,
        "InterfaceType": "efa" if on_primary else "interface",
        **common,
    }
    others: list[Mapping[str, object]] = [
        {
            "NetworkCardIndex": card.index,
            "DeviceIndex": 0 if card.interface_count == 1 else 1,
            "InterfaceType": "efa-only",
            **common,
        }
        for card in cards
        if card.index != _PRIMARY_CARD
    ]
    if associate_public_ip_address is False or (associate_public_ip_address and not others):
        primary["AssociatePublicIpAddress"] = associate_public_ip_address
    return [primary, *others]
