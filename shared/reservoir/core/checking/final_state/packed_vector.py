"""Many small sums as one: thousands of nodes are each summed for several resources."""

from collections.abc import Iterable


class PackedVector:
    """Puts whole numbers side by side into one, in fields of bits, so that adding two of them adds every field.

    No sum of loads may be larger than ``largest`` or smaller than its negative; a room may be.
    """

    def __init__(self, largest: int, fields: int) -> None:
        self._largest = largest
        # of any difference, and a bit for its sign
        self._width = (2 * largest + 1).bit_length() + 1
        self._signs = sum(1 << (at + 1) * self._width - 1 for at in range(fields))

    def load(self, amounts: Iterable[int]) -> int:
        """Pack a request. Loads may be added and multiplied."""
        return sum(amount << at * self._width for at, amount in enumerate(amounts))

    def room(self, amounts: Iterable[int]) -> int:
        """Pack a room; one beyond the largest sum counts as that sum, and one below its negative as that."""
        return self.load(
            max(-self._largest - 1, min(amount, self._largest)) for amount in amounts
        )

    def fits(self, load: int, room: int) -> bool:
        """Whether no field of the load is larger than that of the room: whether no difference is negative.

        The bits of the signs are added first, so that no field borrows from the next and each shows its own sign.
        """
        return (room - load + self._signs) & self._signs == self._signs
