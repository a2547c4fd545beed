"""Whose turn it is to read reservations: the same contract in memory and on DynamoDB."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.discovery_turns import MemoryDiscoveryTurns
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from reservoir.adapters.dynamodb.discovery_turn import DynamoDbDiscoveryTurns
from reservoir.core.capacity.discovery_turn import DiscoveryTurn
from reservoir.names import LISTING_INDEX, LISTING_KEY
from reservoir.ports.discovery_turns import DiscoveryTurnStore, StoredTurn
from reservoir.ports.state import ConflictError, UnreadableRowsError

_names = itertools.count()


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def turns(request: pytest.FixtureRequest) -> DiscoveryTurnStore:
    if request.param == "memory":
        return MemoryDiscoveryTurns()
    dynamodb: Any = request.getfixturevalue("dynamodb")
    table = f"turns-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})
    return DynamoDbDiscoveryTurns(dynamodb, table, ManualClock())


def test_nobody_has_taken_it_at_first(turns: DiscoveryTurnStore) -> None:
    assert turns.read() == StoredTurn(None, 0)


def test_of_two_that_read_the_same_turn_one_writes(turns: DiscoveryTurnStore) -> None:
    mine = DiscoveryTurn(START, busy_until=START + timedelta(minutes=1))
    turns.write(mine, expected_revision=0)

    with pytest.raises(ConflictError):
        turns.write(DiscoveryTurn(START), expected_revision=0)
    assert turns.read() == StoredTurn(mine, 1)

    later = DiscoveryTurn(START, mine.busy_until, asked_for=START + timedelta(seconds=1))
    turns.write(later, expected_revision=1)
    assert turns.read() == StoredTurn(later, 2)


@pytest.mark.embedded
@pytest.mark.parametrize(
    "damage", [{"form": {"N": "99"}}, {"data": {"S": "no JSON"}}, {"revision": {"S": "1"}}]
)
def test_a_turn_that_cannot_be_read_is_not_one_that_nobody_took(
    dynamodb: Any, damage: dict[str, Any]
) -> None:
    table = f"turns-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})
    turns = DynamoDbDiscoveryTurns(dynamodb, table, ManualClock())
    turns.write(DiscoveryTurn(START), expected_revision=0)
    row = dynamodb.get_item(TableName=table, Key={"id": {"S": "discovery-turn"}})["Item"]
    dynamodb.put_item(TableName=table, Item=row | damage)
    with pytest.raises(UnreadableRowsError, match="discovery-turn"):
        turns.read()
