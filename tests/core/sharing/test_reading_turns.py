"""Where more waits than a pass has room for, each team has its part, and all of it is read in turn."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lab.fakes.system import START
from reservoir.core.sharing.reading_turns import DemandReading, ReadingBound, ReadingTurns


def team_of(namespace: str) -> str:
    return namespace.partition("-")[0]


def keys(namespace: str, count: int) -> list[str]:
    return [f"{namespace}/w-{number:05d}" for number in range(count)]


def read(reading: DemandReading, sizes: Mapping[str, int]) -> list[str]:
    """Read to the end; ``sizes`` are of the rows of each team."""
    found: list[str] = []
    while page := reading.next_page():
        found += page
        reading.took({key: sizes[team_of(key.partition("/")[0])] for key in page})
    return found


def one_pass(
    turns: ReadingTurns,
    waiting: Sequence[str],
    sizes: Mapping[str, int],
    named: Sequence[str] = (),
) -> list[str]:
    turns.begin(START)
    return read(turns.reading(waiting, named, lambda: team_of), sizes)


def by_team(found: Sequence[str]) -> Counter[str]:
    return Counter(team_of(key.partition("/")[0]) for key in found)


def test_all_is_read_where_there_is_room() -> None:
    waiting = [*keys("a", 300), *keys("b", 300)]
    turns = ReadingTurns(ReadingBound(rows=600, stored_bytes=10**9, page_rows=50))
    assert sorted(one_pass(turns, waiting, {"a": 10, "b": 10})) == sorted(waiting)
    assert turns.unread_count == 0


def test_nobody_asks_for_teams_where_all_is_one_page() -> None:
    turns = ReadingTurns(ReadingBound(rows=600, stored_bytes=10**9, page_rows=50))
    reading = turns.reading(keys("a", 50), (), team_of=lambda: 1 // 0)  # type: ignore[arg-type,return-value] # whoever asks fails
    assert read(reading, {"a": 1}) == keys("a", 50)
    assert turns.reading((), (), team_of=lambda: team_of).next_page() == []


def test_a_team_with_large_rows_leaves_the_others_their_part() -> None:
    waiting = [*keys("heavy", 5_000), *keys("light-one", 400), *keys("light-two", 400)]
    turns = ReadingTurns(ReadingBound(rows=5_000, stored_bytes=2_000_000, page_rows=100))
    found = by_team(one_pass(turns, waiting, {"heavy": 10_000, "light": 1_000}))
    assert found["light"] == 800, "all of it: less than half of the bytes"
    assert 120 <= found["heavy"] <= 220, "what the light one leaves, and a page at most"


def test_a_team_with_many_rows_leaves_the_others_their_part() -> None:
    waiting = [*keys("many", 5_000), *keys("few", 40)]
    turns = ReadingTurns(ReadingBound(rows=1_000, stored_bytes=10**9, page_rows=100))
    found = by_team(one_pass(turns, waiting, {"many": 100, "few": 100}))
    assert found == {"many": 960, "few": 40}
    assert turns.unread_count == 4_040


def test_the_next_pass_goes_on_where_this_one_stopped() -> None:
    waiting = [*keys("many", 2_500), *keys("few", 10)]
    turns = ReadingTurns(ReadingBound(rows=1_010, stored_bytes=10**9, page_rows=100))
    seen: Counter[str] = Counter()
    for _ in range(3):
        seen.update(one_pass(turns, waiting, {"many": 100, "few": 100}))
    assert all(seen[key] == 3 for key in keys("few", 10))
    assert Counter(seen[key] for key in keys("many", 2_500)) == {1: 2_000, 2: 500}


def test_looks_within_one_pass_read_the_same() -> None:
    turns = ReadingTurns(ReadingBound(rows=100, stored_bytes=10**9, page_rows=10))
    waiting = keys("many", 500)
    first = one_pass(turns, waiting, {"many": 1})
    second = one_pass(turns, waiting, {"many": 1})
    again = read(turns.reading(waiting, (), lambda: team_of), {"many": 1})
    assert second == again != first


def test_who_was_just_written_comes_first() -> None:
    turns = ReadingTurns(ReadingBound(rows=100, stored_bytes=10**9, page_rows=10))
    waiting, named = keys("many", 500), ["many/w-00499", "gone/x"]
    for _ in range(5):
        found = one_pass(turns, waiting, {"many": 1}, named)
        assert found[0] == "many/w-00499"
        assert len(found) == len(set(found)) == 100


def test_bytes_are_passed_by_one_page_at_most() -> None:
    turns = ReadingTurns(ReadingBound(rows=10_000, stored_bytes=1_000, page_rows=10))
    assert len(one_pass(turns, keys("many", 500), {"many": 10**6})) == 10


def test_other_processes_begin_elsewhere_each_minute() -> None:
    bound = ReadingBound(rows=10, stored_bytes=10**9, page_rows=10)
    begun = set()
    for minute in range(20):
        turns = ReadingTurns(bound)
        turns.begin(START.replace(minute=minute))
        reading = turns.reading(keys("many", 500), (), lambda: team_of)
        begun.add(reading.next_page()[0])
    assert len(begun) == 20


def test_what_was_not_read_is_known_by_name() -> None:
    waiting = keys("many", 500)
    turns = ReadingTurns(ReadingBound(rows=100, stored_bytes=10**9, page_rows=10))
    found = one_pass(turns, waiting, {"many": 1}, named=["many/w-00450"])
    assert sorted(found + turns.unread()) == waiting
    assert len(turns.unread()) == turns.unread_count == 400


def test_of_every_team_it_is_known_by_name_what_was_not_read() -> None:
    waiting = [*keys("a", 100), *keys("b", 100), *keys("c", 100)]
    turns = ReadingTurns(ReadingBound(rows=60, stored_bytes=10**9, page_rows=10))
    found = one_pass(turns, waiting, {"a": 1, "b": 1, "c": 1}, named=["b/w-00099"])
    assert sorted(found + turns.unread()) == waiting
    assert by_team(turns.unread())["a"] > 0


def test_what_was_just_written_counts_for_its_page() -> None:
    waiting = keys("many", 100)
    turns = ReadingTurns(ReadingBound(rows=100, stored_bytes=10**9, page_rows=10))
    turns.begin(START)
    reading = turns.reading(waiting, ["many/w-00050"], lambda: team_of)
    assert len(reading.next_page()) == 10


def test_rows_are_read_as_long_as_there_is_room_for_one_and_for_a_byte() -> None:
    waiting = keys("many", 100)
    by_rows = ReadingTurns(ReadingBound(rows=11, stored_bytes=10**9, page_rows=10))
    assert len(one_pass(by_rows, waiting, {"many": 1})) == 11
    by_bytes = ReadingTurns(ReadingBound(rows=100, stored_bytes=20, page_rows=10))
    assert len(one_pass(by_bytes, waiting, {"many": 1})) == 20
    one_byte_left = ReadingTurns(ReadingBound(rows=100, stored_bytes=21, page_rows=10))
    assert len(one_pass(one_byte_left, waiting, {"many": 1})) == 30


def test_only_a_team_that_was_read_in_part_goes_on_after_its_last_row() -> None:
    waiting = [*keys("few", 1), *keys("many", 100), *keys("none", 3)]
    turns = ReadingTurns(ReadingBound(rows=12, stored_bytes=10**9, page_rows=2))
    turns.begin(START)
    reading = turns.reading(
        waiting, ["none/w-00000", "none/w-00001", "none/w-00002"], lambda: team_of
    )
    found = [
        key for key in read(reading, {"few": 1, "many": 1, "none": 1}) if key[0] == "m"
    ]
    assert reading.reached()["many"] == found[-1]
    assert "few" not in reading.reached()
