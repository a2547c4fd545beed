"""Accounts: the same contract in memory and on DynamoDB."""

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.dynamodb.accounts import DynamoDbAccounts
from shared.core.model.instance_type import CapacityType
from shared.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading
from shared.ports.accounts import AccountStore
from shared.ports.state import ConflictError
from tests.adapters import ministack
from tests.fakes.stores.accounts import MemoryAccounts
from tests.fakes.system import START, ManualClock

_names = itertools.count()
BOUGHT = CapacityType.ON_DEMAND
AUDIO = AccountLine("2026-01-15", "audio", "audio", BOUGHT)
NOBODY = AccountLine("2026-02-01", "", "", CapacityType.RESERVED)
METER = Meter("nc-1", START, START, BOUGHT, 10**20, {"audio": 2})
LATER = replace(METER, since=START + timedelta(hours=1), replicas={"audio": 1, "vision": 1})


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def accounts(request: pytest.FixtureRequest) -> AccountStore:
    if request.param == "memory":
        return MemoryAccounts()
    dynamodb: Any = request.getfixturevalue("dynamodb")
    table = f"accounts-{next(_names)}"
    ministack.create_history_table(dynamodb, table)
    return DynamoDbAccounts(dynamodb, table, ManualClock())


def test_amounts_are_added_and_the_meter_moves(accounts: AccountStore) -> None:
    accounts.write("nc-1", None, MeterReading({}, METER))
    assert (accounts.meter("nc-1"), accounts.meters()) == (METER, {"nc-1": METER})
    accounts.write("nc-1", METER, MeterReading({AUDIO: Amount(3600, 10**20), NOBODY: Amount(7)}, LATER))
    accounts.write("nc-1", LATER, MeterReading({AUDIO: Amount(1, 3 * 10**21)}, None))
    assert accounts.accounts("2026-01") == {AUDIO: Amount(3601, 31 * 10**20)}
    assert accounts.accounts("2026-02") == {NOBODY: Amount(7, 0)}
    assert (accounts.meter("nc-1"), accounts.meters()) == (None, {})


def test_many_meters_are_read_by_name(accounts: AccountStore) -> None:
    running = {f"nc-{number:03}": replace(METER, claim_id=f"nc-{number:03}") for number in range(120)}
    for claim_id, meter in running.items():
        accounts.write(claim_id, None, MeterReading({}, meter))
    asked = [*list(running)[10:], "nc-010", "nc-unknown"]
    assert accounts.meters_of(asked) == {key: meter for key, meter in running.items() if key in asked}
    assert accounts.meters_of([]) == {}


def test_nothing_is_counted_twice(accounts: AccountStore) -> None:
    accounts.write("nc-1", None, MeterReading({}, METER))
    reading = MeterReading({AUDIO: Amount(60)}, LATER)
    accounts.write("nc-1", METER, reading)
    for before in (METER, None):
        with pytest.raises(ConflictError):
            accounts.write("nc-1", before, reading)
    accounts.write("nc-1", LATER, MeterReading({AUDIO: Amount(1)}, None))
    for reading in (MeterReading({AUDIO: Amount(60)}, None), MeterReading({}, METER)):
        with pytest.raises(ConflictError):
            accounts.write("nc-1", None, reading)  # whoever hears of it after its end
    assert accounts.accounts("2026-01") == {AUDIO: Amount(61)}


def test_an_end_may_be_the_first_that_is_heard(accounts: AccountStore) -> None:
    accounts.write("nc-1", None, MeterReading({AUDIO: Amount(5)}, None))
    with pytest.raises(ConflictError):
        accounts.write("nc-1", None, MeterReading({AUDIO: Amount(5)}, None))
    assert accounts.accounts("2026-01") == {AUDIO: Amount(5)}
