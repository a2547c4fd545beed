"""Accounts in memory."""

from collections.abc import Collection, Mapping
from contextlib import suppress

from reservoir.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading
from reservoir.ports.state import ConflictError, UnreadableRowsError


class MemoryAccounts:
    """Implements ``reservoir.ports.accounts.AccountStore``."""

    def __init__(self) -> None:
        self._running: dict[str, Meter] = {}
        self._ended: set[str] = set()
        self._accounts: dict[AccountLine, Amount] = {}
        # claims whose meters a newer release wrote, or that were damaged
        self.unreadable: set[str] = set()

    def meters(self) -> Mapping[str, Meter]:
        return {
            key: meter for key, meter in self._running.items() if key not in self.unreadable
        }

    def meter(self, claim_id: str) -> Meter | None:
        return self.meters_of([claim_id]).get(claim_id)

    def meters_of(self, claim_ids: Collection[str]) -> Mapping[str, Meter]:
        lost = self.unreadable.intersection(claim_ids)
        if lost:
            raise UnreadableRowsError([f"#running {claim_id}" for claim_id in lost])
        return {key: meter for key, meter in self._running.items() if key in claim_ids}

    def write(self, claim_id: str, before: Meter | None, reading: MeterReading) -> None:
        if self._running.get(claim_id) != before or claim_id in self._ended:
            raise ConflictError([claim_id])
        for account, amount in reading.amounts.items():
            self._accounts[account] = self._accounts.get(account, Amount()) + amount
        if reading.meter is None:
            self._running.pop(claim_id, None)
            self._ended.add(claim_id)
        else:
            self._running[claim_id] = reading.meter

    def write_many(
        self, before: Mapping[str, Meter | None], readings: Mapping[str, MeterReading]
    ) -> Collection[str]:
        moved = set()
        for claim_id, reading in readings.items():
            with suppress(ConflictError):
                self.write(claim_id, before.get(claim_id), reading)
                moved.add(claim_id)
        return moved

    def accounts(self, month: str) -> Mapping[AccountLine, Amount]:
        return {
            account: amount
            for account, amount in self._accounts.items()
            if account.day.startswith(month)
        }
