"""Sets of small numbers as integers."""

from collections.abc import Iterator


def iter_bits(mask: int) -> Iterator[int]:
    """Yield the positions of set bits, ascending."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit
