"""The network of a zone: a tree of network nodes, under which capacity is; where, is drawn from its name.

Which types have how many layers is AWS's list
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-topology-prerequisites.html).
"""

import fnmatch
import hashlib
from collections.abc import Iterator
from typing import Final

from lab.embedded.ec2.account.state import CapacityReservation, Zone
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.market.catalogue import is_ultraserver

_LAYERS: Final = {
    **dict.fromkeys(("g6e.*", "g7e.*", "hpc6a.*", "hpc6id.*", "hpc7g.*", "hpc7a.*"), 3),
    **dict.fromkeys(("hpc8a.*", "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge"), 3),
    **dict.fromkeys(("p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"), 3),
    **dict.fromkeys(("p6e-gb200.36xlarge", "trn1.2xlarge", "trn1.32xlarge"), 3),
    **dict.fromkeys(("trn1n.32xlarge", "trn2.48xlarge", "trn2u.48xlarge"), 3),
    **dict.fromkeys(("p6-b200.48xlarge", "p6-b300.48xlarge"), 4),
}
# What of a reservation is known before a launch "varies by its state and type"; AWS's examples of active ones have 2.
_SHOWN_OF_RESERVATIONS: Final = {"active": 2, "pending": 1}


def layers_of(instance_type: str) -> int:
    """Return in how many layers of network nodes EC2 shows instances of a type; 0 of most."""
    for pattern, layers in _LAYERS.items():
        if fnmatch.fnmatchcase(instance_type, pattern):
            return layers
    return 0


def shown_of_reservation(world: World, reservation: CapacityReservation) -> tuple[str, ...]:
    """Return the network nodes that EC2 shows of a reservation, from the top."""
    state, layers = reservation.state, layers_of(reservation.instance_type)
    shown = min(layers, _SHOWN_OF_RESERVATIONS.get(state, 0))
    if state == "active" and is_ultraserver(reservation.instance_type):
        shown = layers  # the same as of its instances
    return _of_reservation(world, reservation)[:shown]


def of_instance(
    world: World,
    instance_id: str,
    instance_type: str,
    zone: Zone,
    reservation: CapacityReservation | None,
) -> tuple[str, ...]:
    """Return the network nodes over an instance that starts now, from the top.

    Those that EC2 shows of its reservation come first.
    """
    layers = layers_of(instance_type)
    above = () if reservation is None else shown_of_reservation(world, reservation)
    return tuple(_drawn(world, zone, instance_id, layers, above))


def _of_reservation(world: World, reservation: CapacityReservation) -> tuple[str, ...]:
    if reservation.network_nodes:
        return reservation.network_nodes
    layers = layers_of(reservation.instance_type)
    return tuple(_drawn(world, reservation.zone, reservation.reservation_id, layers, ()))


def _drawn(
    world: World, zone: Zone, name: str, layers: int, above: tuple[str, ...]
) -> Iterator[str]:
    """Yield a way down the tree of a zone: the nodes ``above``, then one child after the other, drawn by name."""
    yield from above[:layers]
    node = above[-1] if above else f"{world.account_id}/{zone.zone_id}"
    for layer in range(len(above), layers):
        child = _number(f"{name}/{layer}") % world.settings.network_children
        node = f"nn-{hashlib.sha256(f'{node}/{child}'.encode()).hexdigest()[:17]}"
        yield node


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)
