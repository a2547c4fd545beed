"""What a change of on-demand reservations would do and cost, as an order that a buyer can agree to.

Reads the reservations as EC2 shows them now, refuses what EC2 would refuse, and has EC2 quote what it charges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.purchasing import reservation_rules as rules
from reservoir.core.purchasing.change import (
    ChangeKind,
    HeldReservation,
    OrderedChange,
)
from reservoir.core.purchasing.purchase import BlockOrder
from reservoir.core.purchasing.reckoning import cost_micro_usd, counted_until
from reservoir.core.scheduling_terms.money import usd
from reservoir.ports.ec2 import ReservationChanger
from reservoir.ports.state import OfferingStore
from reservoir.ports.system import Clock, IdFactory

_LINUX: Final = "Linux/UNIX"
_SHARED: Final = "default"
_CPU: Final = "cpu"
_MILLI: Final = 1000
# EC2 may take a moment for a quote; it is asked for after each of these pauses.
_LOOKS_AFTER_S: Final = (0, 2, 5, 10, 20)
Tags = tuple[tuple[str, str], ...]


class ChangeRefusedError(Exception):
    """EC2 would refuse the change, or its cost is not known; the reasons are for the caller."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class NewReservation:
    """A reservation that the caller wants; ``starts_at`` None: now."""

    instance_type: str
    zone: str
    count: int
    platform: str = _LINUX
    match_criteria: str = "targeted"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    commitment: timedelta = timedelta()
    tags: Tags = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """An order, and notes that the buyer should read before agreeing."""

    order: BlockOrder
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeReservations:
    """Proposes changes for one person."""

    changer: ReservationChanger
    offerings: OfferingStore
    clock: Clock
    ids: IdFactory
    pause: Callable[[float], None]
    account_id: str

    def create(self, wanted: NewReservation) -> Proposal:
        """Propose a new reservation, for now or ahead. Raises ChangeRefusedError and AwsError."""
        now = self.clock.now()
        start_at = wanted.starts_at or now
        found = [rules.count_refusal(wanted.count)]
        commitment_end_at = None
        if wanted.starts_at is not None:
            commitment_end_at = start_at + wanted.commitment
            found += rules.future_dated_refusals(
                wanted.instance_type,
                self._vcpus(wanted.instance_type),
                wanted.count,
                start_at - now,
                wanted.commitment,
                wanted.match_criteria,
            )
        elif wanted.commitment:
            found.append("only what starts later has a commitment")
        found.append(rules.end_refusal(wanted.ends_at, now, commitment_end_at))
        _refuse(found)
        until = commitment_end_at or counted_until(start_at, wanted.ends_at)
        price = self._price(wanted.instance_type, wanted.platform, _SHARED)
        order = BlockOrder(
            self.ids.new_id("change"),
            wanted.instance_type,
            wanted.zone,
            wanted.count,
            start_at,
            until,
            _cost(price, wanted.count, start_at, until),
            wanted.platform,
            wanted.tags,
            change=OrderedChange(
                ChangeKind.CREATE,
                match_criteria=wanted.match_criteria,
                starts_at=wanted.starts_at,
                ends_at=wanted.ends_at,
                commitment_s=int(wanted.commitment.total_seconds()),
            ),
        )
        return Proposal(order, _notes_of_new(wanted, commitment_end_at, price))

    def resize(self, reservation_id: str, count: int) -> Proposal:
        """Propose another count of units. Raises ChangeRefusedError and AwsError."""
        now = self.clock.now()
        held = self._held(reservation_id)
        _refuse(rules.resize_refusals(held, count, now))
        more_count = max(0, count - held.total_count)
        until = counted_until(now, held.end_at)
        notes = [f"it has {held.total_count} units, of which {held.used_count} are used"]
        fee = 0
        if more_count:
            price = self._price_of(held)
            fee = _cost(price, more_count, now, until)
            notes.append(_billed(price))
        elif held.used_count > count:
            notes.append(_go_on(held.used_count - count))
        order = self._order(
            held,
            ChangeKind.RESIZE,
            count,
            now,
            until,
            fee,
            count_before=held.total_count,
        )
        return Proposal(order, tuple(notes))

    def split(self, reservation_id: str, count: int, tags: Tags) -> Proposal:
        """Propose another reservation of some of the units. Raises ChangeRefusedError and AwsError."""
        now = self.clock.now()
        held = self._held(reservation_id)
        _refuse(rules.split_refusals(held, count, now))
        order = self._order(
            held,
            ChangeKind.SPLIT,
            count,
            now,
            counted_until(now, held.end_at),
            0,
            count_before=held.total_count,
            tags=tags,
        )
        kept_count = held.total_count - count
        note = f"{kept_count} units stay; the new reservation has none of the tags of {held.id}"
        return Proposal(order, (note, *_used_notes(held, count)))

    def move(self, reservation_id: str, into_id: str, count: int) -> Proposal:
        """Propose units of one reservation in another. Raises ChangeRefusedError and AwsError."""
        now = self.clock.now()
        held, into = self._held(reservation_id), self._held(into_id)
        _refuse(rules.move_refusals(held, into, count, now))
        order = self._order(
            held,
            ChangeKind.MOVE,
            count,
            now,
            counted_until(now, held.end_at),
            0,
            into=into.id,
            count_before=held.total_count,
            into_count_before=into.total_count,
        )
        left_count, grown_count = held.total_count - count, into.total_count + count
        notes = [f"{held.id} then has {left_count} units, {into.id} {grown_count}"]
        if left_count == 0:
            notes.append(f"EC2 cancels {held.id}, which is then empty")
        return Proposal(order, (*notes, *_used_notes(held, count)))

    def cancel(self, reservation_id: str) -> Proposal:
        """Propose to cancel, with EC2's quote where it charges. Raises ChangeRefusedError and AwsError."""
        now = self.clock.now()
        held = self._held(reservation_id)
        _refuse(rules.cancel_refusals(held, now))
        notes = ["AWS does not undo it: a cancelled reservation stays cancelled"]
        if held.used_count:
            notes.append(_go_on(held.used_count))
        if not held.is_committed(now):
            order = self._order(
                held,
                ChangeKind.CANCEL,
                held.size,
                now,
                now,
                0,
                count_before=held.total_count,
            )
            return Proposal(order, tuple(notes))
        terms = self.changer.cancellation_terms(held.id, self.ids.new_id("quote"))
        self._await_quote(terms.quote_id)
        count = terms.count or held.size
        fee = 0
        if terms.charged_hours:
            price = self._price_of(held)
            fee = cost_micro_usd(price, count, terms.charged_hours * 3600)
            end = terms.charge_end_at
            until = f", until {end:%F %H:%M} UTC" if end else ""
            notes.append(
                f"AWS charges {terms.charged_hours} hours of {count} units{until}, for nothing in return"
            )
            notes.append(_billed(price))
        notes.append(_quoted(terms.quote_id, terms.expires_at))
        order = self._order(
            held,
            ChangeKind.CANCEL,
            count,
            now,
            terms.charge_end_at or now,
            fee,
            count_before=held.total_count,
            quote_id=terms.quote_id,
        )
        return Proposal(order, tuple(notes))

    def push_out(self, reservation_id: str, new_start_at: datetime) -> Proposal:
        """Propose a later start, by EC2's quote. Raises ChangeRefusedError and AwsError."""
        now = self.clock.now()
        held = self._held(reservation_id)
        _refuse(rules.push_out_refusals(held, new_start_at, now))
        terms = self.changer.date_change_terms(
            held.id, new_start_at, self.ids.new_id("quote")
        )
        if terms.new_start_at != new_start_at:
            _refuse([f"EC2 offers {terms.new_start_at:%F %H:%M} UTC only"])
        more_s = max(0, terms.new_commitment_s - held.commitment_s)
        whole = timedelta(seconds=terms.new_commitment_s)
        until = terms.new_commitment_end_at or new_start_at + whole
        notes = [f"it starts at {held.start_at:%F %H:%M} UTC now"] if held.start_at else []
        notes.append(
            f"the commitment is then {whole.days} days, until {until:%F %H:%M} UTC"
        )
        fee = 0
        if more_s:
            price = self._price_of(held)
            fee = cost_micro_usd(price, held.size, more_s)
            notes.append(
                f"that is {timedelta(seconds=more_s).days} days more of {held.size} units; {_billed(price)}"
            )
        notes.append(
            "EC2 then looks whether it can, and may refuse: reservoir get reservations"
        )
        notes.append(_quoted(terms.quote_id, terms.expires_at))
        order = self._order(
            held,
            ChangeKind.PUSH_OUT,
            held.size,
            new_start_at,
            until,
            fee,
            quote_id=terms.quote_id,
            starts_at=new_start_at,
            commitment_s=terms.new_commitment_s,
        )
        return Proposal(order, tuple(notes))

    def _order(
        self,
        held: HeldReservation,
        kind: ChangeKind,
        count: int,
        start_at: datetime,
        end_at: datetime,
        fee_micro_usd: int,
        *,
        tags: Tags = (),
        into: str = "",
        count_before: int = 0,
        into_count_before: int = 0,
        quote_id: str = "",
        starts_at: datetime | None = None,
        commitment_s: int = 0,
    ) -> BlockOrder:
        change = OrderedChange(
            kind,
            held.id,
            into,
            count_before,
            into_count_before,
            quote_id,
            held.match_criteria,
            starts_at,
            None,
            commitment_s,
        )
        return BlockOrder(
            self.ids.new_id("change"),
            held.instance_type,
            held.zone,
            count,
            start_at,
            end_at,
            fee_micro_usd,
            held.platform,
            tags,
            change=change,
        )

    def _held(self, reservation_id: str) -> HeldReservation:
        held = self.changer.held(reservation_id)
        if held is None:
            raise ChangeRefusedError([f"EC2 shows no reservation {reservation_id}"])
        _refuse([rules.change_refusal(held, self.account_id)])
        return held

    def _price_of(self, held: HeldReservation) -> int:
        return self._price(held.instance_type, held.platform, held.tenancy)

    def _price(self, instance_type: str, platform: str, tenancy: str) -> int:
        if platform != _LINUX or tenancy != _SHARED:
            raise ChangeRefusedError(
                [
                    f"only prices of {_LINUX} on shared hardware are known, not what this costs"
                ]
            )
        price = self.offerings.on_demand_prices([instance_type]).get(instance_type)
        if not price:
            raise ChangeRefusedError(
                [f"the price of {instance_type} is not known, so it cannot be agreed to"]
            )
        return price

    def _vcpus(self, instance_type: str) -> int | None:
        types, _ = self.offerings.load_with_rests([instance_type])
        for each in types:
            if each.name == instance_type:
                return each.capacity[_CPU] // _MILLI
        return None

    def _await_quote(self, quote_id: str) -> None:
        for seconds in _LOOKS_AFTER_S:
            self.pause(seconds)
            if self.changer.is_quoted(quote_id):
                return
        raise ChangeRefusedError(
            [f"EC2 has not finished its quote {quote_id} yet: ask again"]
        )


def _notes_of_new(
    wanted: NewReservation, commitment_end_at: datetime | None, price: int
) -> tuple[str, ...]:
    notes = []
    if commitment_end_at is not None:
        notes.append(
            f"you commit to it until {commitment_end_at:%F %H:%M} UTC, whether or not you use it"
        )
        notes.append(
            "EC2 first looks whether it can deliver; until then cancelling costs nothing"
        )
    elif wanted.ends_at is not None:
        notes.append(f"it ends at {wanted.ends_at:%F %H:%M} UTC, or when you cancel it")
    else:
        notes.append(
            "it has no end: it counts for thirty days here, and costs until you cancel it"
        )
    if wanted.match_criteria == "open":
        notes.append("instances of the account that match run in it by themselves")
    return (*notes, _billed(price))


def _used_notes(held: HeldReservation, count: int) -> tuple[str, ...]:
    free_count = max(0, held.total_count - held.used_count)
    if count <= free_count:
        return ()
    return (f"{count - free_count} used units go along, of instances that EC2 chooses",)


def _go_on(count: int) -> str:
    return f"{count} instances go on outside of it, billed as on-demand"


def _billed(price: int) -> str:
    return f"counted at {usd(price)} a unit and hour, the on-demand rate"


def _quoted(quote_id: str, expires_at: datetime) -> str:
    return f"AWS's quote {quote_id} holds until {expires_at:%F %H:%M} UTC"


def _cost(price: int, count: int, start_at: datetime, until: datetime) -> int:
    return cost_micro_usd(price, count, int((until - start_at).total_seconds()))


def _refuse(reasons: Sequence[str | None]) -> None:
    found = [each for each in reasons if each is not None]
    if found:
        raise ChangeRefusedError(found)
