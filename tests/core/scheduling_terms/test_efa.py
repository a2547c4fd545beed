"""Which network interfaces carry EFAs, as the EC2 user guide lays them out for several network cards."""

import pytest

from reservoir.core.scheduling_terms.efa import (
    EFA,
    EfaCard,
    network_interfaces,
    wants_efa,
    without_efa,
)
from reservoir.core.scheduling_terms.resources import Resources

P4D = tuple(EfaCard(index, 15) for index in range(4))
GROUPS = ["sg-1"]


def shape(cards: tuple[EfaCard, ...]) -> list[tuple[object, object, object]]:
    made = network_interfaces(cards, GROUPS, None)
    return [
        (each["NetworkCardIndex"], each["DeviceIndex"], each["InterfaceType"])
        for each in made
    ]


def test_a_single_efa_is_the_primary_interface() -> None:
    assert shape((EfaCard(0, 15),)) == [(0, 0, "efa")]


def test_every_other_card_carries_an_efa_without_an_address() -> None:
    assert shape(P4D) == [
        (0, 0, "efa"),
        (1, 1, "efa-only"),
        (2, 1, "efa-only"),
        (3, 1, "efa-only"),
    ]


def test_a_card_with_room_for_one_interface_takes_it_as_its_first() -> None:
    assert shape((EfaCard(0, 1), EfaCard(1, 1))) == [(0, 0, "efa"), (1, 0, "efa-only")]


def test_a_primary_card_that_carries_no_efa_still_carries_ip() -> None:
    assert shape((EfaCard(1, 4), EfaCard(2, 4))) == [
        (0, 0, "interface"),
        (1, 1, "efa-only"),
        (2, 1, "efa-only"),
    ]


def test_every_interface_has_the_security_groups_and_goes_with_its_instance() -> None:
    made = network_interfaces(P4D, GROUPS, None)
    assert all(
        each["Groups"] == GROUPS and each["DeleteOnTermination"] is True for each in made
    )
    assert all("Groups" not in each for each in network_interfaces(P4D, [], None))


@pytest.mark.parametrize(
    ("cards", "wanted", "said"),
    [(P4D[:1], True, True), (P4D, True, None), (P4D, False, False), (P4D, None, None)],
)
def test_ec2_gives_no_public_address_to_several_interfaces(
    cards: tuple[EfaCard, ...], wanted: bool | None, said: bool | None
) -> None:
    primary, *others = network_interfaces(cards, GROUPS, wanted)
    assert primary.get("AssociatePublicIpAddress") is said
    assert not any("AssociatePublicIpAddress" in each for each in others)


def test_a_node_without_efas_offers_none() -> None:
    room = Resources.of({"cpu": 1000, EFA: 4})
    assert wants_efa(room)
    assert without_efa(room) == Resources.of({"cpu": 1000})
    assert not wants_efa(without_efa(room))
