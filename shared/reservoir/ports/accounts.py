"""What instances have cost each namespace."""

from collections.abc import Collection, Mapping
from typing import Protocol

from reservoir.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading


class AccountStore(Protocol):
    """Accounts by month, and the meters of instances that run."""

    def meters(self) -> Mapping[str, Meter]:
        """Return the meters that run, by claim (consistent read); one that cannot be read is left out."""
        ...

    def meter(self, claim_id: str) -> Meter | None:
        """Return a claim's meter while it runs (consistent read). Raises UnreadableRowsError."""
        ...

    def meters_of(self, claim_ids: Collection[str]) -> Mapping[str, Meter]:
        """Return the running meters of these claims, by claim (consistent read). Raises UnreadableRowsError."""
        ...

    def write(self, claim_id: str, before: Meter | None, reading: MeterReading) -> None:
        """Add the amounts of a reading to their accounts, and replace the meter ``before`` by its own: all or none.

        Raises
        ------
        ConflictError
            The stored meter is not ``before``, or has ended: nothing is counted twice.
        """
        ...

    def write_many(
        self, before: Mapping[str, Meter | None], readings: Mapping[str, MeterReading]
    ) -> Collection[str]:
        """As ``write`` for each claim, many together; return the claims whose meters moved.

        What does not match ``before`` is left alone and holds nothing else up.
        """
        ...

    def accounts(self, month: str) -> Mapping[AccountLine, Amount]:
        """Return the recorded accounts of a month (consistent read); running meters are not in them."""
        ...
