"""The catalogue of instance types and the known shortages in DynamoDB.

One row an instance type, one row a shortage, and one row that says which catalogue is current: a planner that has read
it already (in the same Lambda environment) reads that single row instead of some 1,400. A caller that needs certain
types reads their rows alone.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    DynamoDbTable,
    Expression,
    Write,
    all_readable,
    apply,
    attributes,
    data,
    epoch_s,
    instant,
    text,
    transact,
    understood,
)
from reservoir.core.capacity.unavailable_offerings import (
    ClassMarketKey,
    Market,
    NodeClassKey,
    Place,
    Rests,
    SpotLossKey,
    SubnetKey,
    Unavailable,
    with_shortages,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import OfferingKey
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY, LISTING_INDEX, LISTING_KEY, TTL_ATTRIBUTE
from reservoir.ports.state import COMMIT_ITEMS_MAX, ConflictError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LISTED: Final = "catalogue"
SHORTAGES: Final = "shortages"
UNTIL: Final = "until"
VERSION_ROW: Final = "#catalogue"  # no instance type begins with "#"
REASON: Final = "reason"
_SHORTAGE_PREFIX: Final = "#shortage "
_MARKET_PREFIX: Final = "#market "
_SUBNET_PREFIX: Final = "#subnet "
_CLASS_PREFIX: Final = "#class "
_CLASS_MARKET_PREFIX: Final = "#class-market "
_SPOT_LOSS_PREFIX: Final = "#spot-loss "
_NOT_OFFERED: Final = OfferingKey("", "", "", CapacityType.ON_DEMAND)
_INDEX_LAG: Final = timedelta(seconds=10)  # usually well under a second; AWS promises none


class DynamoDbOfferingStore:
    """Implements ``reservoir.ports.state.OfferingStore``."""

    def __init__(
        self, client: "DynamoDBClient", table_name: str, clock: Clock, executor: Executor
    ) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock
        self._executor = executor
        self._known: dict[str, str] = {}
        self._parsed: tuple[InstanceType, ...] = ()
        self._known_version: str | None = None

    def load_catalogue(self) -> tuple[InstanceType, ...]:
        """Return all types with prices; shortages that have not expired are applied to the offerings."""
        return self.load_with_rests()[0]

    def load_with_rests(
        self, only: Collection[str] | None = None
    ) -> tuple[tuple[InstanceType, ...], Rests]:
        """Return the catalogue, or ``only`` these types of it, and everything that rests now."""
        now = self._clock.now()
        reading = self._executor.submit(self.list_unavailable, now)
        types = self._all(now) if only is None else self._named(only, now)
        rests = reading.result()
        return with_shortages(types, rests), rests

    def _named(self, names: Collection[str], now: datetime) -> tuple[InstanceType, ...]:
        """Read the rows of these types and no others."""
        found = all_readable(self._table.get_many(names, now), _type)
        return tuple(found[name][1] for name in sorted(found))

    def _all(self, now: datetime) -> tuple[InstanceType, ...]:
        """Return what this process knows already, unless it is out of date."""
        version_row = self._table.get(VERSION_ROW, now)
        version = None if version_row is None else text(version_row, DATA)
        if version is None or version != self._known_version:
            self._read(now)
            # While the index may still lag the rows behind this version, the rows that were read are used but not
            # remembered.
            is_settled = (
                version is not None and datetime.fromisoformat(version) + _INDEX_LAG <= now
            )
            self._known_version = version if is_settled else None
        return self._parsed

    def _read(self, now: datetime) -> None:
        """Read the whole catalogue: a type that is left out would be taken for one that is not sold any more."""
        found = all_readable(
            self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, now), _type
        )
        self._known = {name: text for name, (text, _) in found.items()}
        self._parsed = tuple(found[name][1] for name in sorted(found))

    def on_demand_prices(self, instance_types: Collection[str]) -> Mapping[str, int]:
        """Return prices as far as they are known; reads the rows of these types and no others."""
        found = understood(self._table.get_many(instance_types, self._clock.now()), _type)
        prices = {each.name: each.on_demand_price_micro_usd_per_hour for _, each in found}
        return {name: price for name, price in prices.items() if price is not None}

    def save_catalogue(self, instance_types: Sequence[InstanceType]) -> int:
        """Replace the catalogue; returns how many rows were written or deleted.

        Rows are compared with the stored ones, so an unchanged catalogue costs one read of it and no write. A hundred
        rows go in one request; the version comes last: until then, readers use their earlier one.
        """
        rows = list(
            self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, self._clock.now())
        )
        self._known = {}
        for row in rows:
            for known, _ in understood([row], _type):
                self._known[text(row, KEY)] = known
        wanted = {
            instance_type.name: dumps(instance_type) for instance_type in instance_types
        }
        changed = sorted(
            name for name, value in wanted.items() if self._known.get(name) != value
        )
        gone = sorted({text(row, KEY) for row in rows} - wanted.keys())
        writes = [self._put(name, wanted[name]) for name in changed]
        writes += [
            Write(
                "Delete", name, {"TableName": self._table.name, "Key": {KEY: {"S": name}}}
            )
            for name in gone
        ]
        for start in range(0, len(writes), COMMIT_ITEMS_MAX):
            transact(self._client, writes[start : start + COMMIT_ITEMS_MAX])
        if writes:
            version = attributes(
                {KEY: VERSION_ROW, FORM: CURRENT_FORM, DATA: instant(self._clock.now())}
            )
            with map_client_errors():
                self._client.put_item(TableName=self._table.name, Item=version)
        return len(changed) + len(gone)

    def _put(self, name: str, value: str) -> Write:
        """Write a type whatever is stored; the last discovery wins."""
        row = attributes({KEY: name, FORM: CURRENT_FORM, DATA: value, LISTING_KEY: LISTED})
        return Write("Put", name, {"TableName": self._table.name, "Item": row})

    def mark_unavailable(
        self, places: Collection[Place], *, until: datetime, reason: str = ""
    ) -> None:
        """Remember a shortage until ``until``; a later instant wins over an earlier one."""
        for place in sorted(set(places), key=_key):
            expression = Expression()
            condition = f"{expression.absent()} OR {expression.before(UNTIL, until)}"
            try:
                apply(
                    self._client,
                    self._table.put(_shortage(place, until, reason), expression, condition),
                )
            except ConflictError:
                continue  # a later instant is known already

    def list_unavailable(self, now: datetime) -> Mapping[Place, Unavailable]:
        """Return shortages that have not expired."""
        rows = self._table.query(LISTING_INDEX, LISTING_KEY, SHORTAGES, now)
        # what cannot be read is asked for, and rests again
        shortages = dict(understood(rows, _read_shortage))
        return {
            place: shortage for place, shortage in shortages.items() if shortage.until > now
        }


def _type(row: Attributes) -> tuple[str, InstanceType]:
    return data(row), loads(InstanceType, data(row))


def _key(place: Place) -> str:
    if isinstance(place, SubnetKey):
        return _SUBNET_PREFIX + place.subnet_id
    if isinstance(place, ClassMarketKey):
        return (
            f"{_CLASS_MARKET_PREFIX}{place.name} {place.static_hash} {place.capacity_type}"
        )
    if isinstance(place, SpotLossKey):
        return _SPOT_LOSS_PREFIX + place.workload_key
    if isinstance(place, NodeClassKey):
        return f"{_CLASS_PREFIX}{place.name} {place.static_hash}"
    return (_MARKET_PREFIX if isinstance(place, Market) else _SHORTAGE_PREFIX) + dumps(
        place
    )


def _read_shortage(row: Attributes) -> tuple[Place, Unavailable]:
    place: Place
    key = text(row, KEY)
    if key.startswith(_SUBNET_PREFIX):
        place = SubnetKey(key.removeprefix(_SUBNET_PREFIX))
    elif key.startswith(_CLASS_PREFIX):
        name, _, static_hash = key.removeprefix(_CLASS_PREFIX).partition(" ")
        place = NodeClassKey(name, static_hash)
    elif key.startswith(_CLASS_MARKET_PREFIX):
        name, static_hash, market = key.removeprefix(_CLASS_MARKET_PREFIX).split(" ")
        place = ClassMarketKey(name, static_hash, CapacityType(market))
    elif key.startswith(_SPOT_LOSS_PREFIX):
        place = SpotLossKey(key.removeprefix(_SPOT_LOSS_PREFIX))
    elif key.startswith(_MARKET_PREFIX):
        place = loads(Market, data(row))
    else:
        place = loads(OfferingKey, data(row))
    reason = text(row, REASON) if REASON in row else ""
    return place, Unavailable(datetime.fromisoformat(text(row, UNTIL)), reason)


def _shortage(place: Place, until: datetime, reason: str) -> Attributes:
    return attributes(
        {
            KEY: _key(place),
            FORM: CURRENT_FORM,
            # An older release that does not know rows about subnets, classes and so on reads one about an offering that
            # does not exist.
            DATA: dumps(place if isinstance(place, OfferingKey | Market) else _NOT_OFFERED),
            UNTIL: instant(until),
            REASON: reason or None,
            LISTING_KEY: SHORTAGES,
            # whole seconds, rounded up: never before the shortage is over
            TTL_ATTRIBUTE: epoch_s(until) + 1,
        }
    )
