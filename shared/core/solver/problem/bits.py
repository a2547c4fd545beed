"""Sets of small numbers as integers."""

from collections.abc import Iterable, Iterator


def iter_bits(mask: int) -> Iterator[int]:
    """Yield the positions of set bits, ascending."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def mask_of(positions: Iterable[int]) -> int:
    """Return the integer in which the bits at these positions are set."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask
