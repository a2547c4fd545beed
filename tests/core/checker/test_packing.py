"""Packed sums say the same as sums for each resource, whatever the numbers are."""

from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.checking.final_state.packed_vector import PackedVector

LARGEST = 1000
AMOUNTS = st.integers(-10, 10)
SEVERAL = st.integers(1, 4)


@given(st.data(), SEVERAL)
def test_a_load_fits_where_every_field_does(data: st.DataObject, fields: int) -> None:
    rows = st.lists(AMOUNTS, min_size=fields, max_size=fields)
    replicas = data.draw(st.lists(st.tuples(rows, st.integers(-5, 5)), max_size=20))
    loads = [sum(row[at] * count for row, count in replicas) for at in range(fields)]
    # Near the load, where one more or less decides, and far beyond what a load may be.
    room = [
        load + data.draw(st.sampled_from((-(10**9), -1, 0, 1, 10**9))) for load in loads
    ]
    packing = PackedVector(LARGEST, fields)

    packed = sum(packing.load(row) * count for row, count in replicas)

    assert packing.fits(packed, packing.room(room)) is all(map(int.__le__, loads, room))


@given(SEVERAL, st.sampled_from((-LARGEST, LARGEST)), st.sampled_from((-LARGEST, LARGEST)))
def test_the_largest_loads_do_not_reach_into_the_next_field(
    fields: int, load: int, there: int
) -> None:
    packing = PackedVector(LARGEST, fields + 1)
    full, empty = [load] * fields, [there] * fields

    assert packing.fits(packing.load([*full, 0]), packing.room([*empty, 0])) is (
        load <= there
    )
    assert packing.fits(packing.load([0, *full]), packing.room([0, *empty])) is (
        load <= there
    )


def test_nothing_fits_where_something_is_overdrawn() -> None:
    packing = PackedVector(0, 2)

    assert packing.fits(packing.load([0, 0]), packing.room([5, 0]))
    assert not packing.fits(packing.load([0, 0]), packing.room([5, -1]))
