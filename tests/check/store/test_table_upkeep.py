"""Which files are merged: within a day and within bounds, seldom the same row, and soon enough."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.clock import DAY_MS
from ledger.facts.tables import TABLE_BY_NAME
from ledger.store.merging import (
    BEHIND_FILES,
    CLOSED_AFTER_MS,
    FANOUT,
    SORTED_BY,
    TARGET_BYTES,
    TARGET_ROWS,
    DataFile,
    Merge,
    due_merges,
    files_behind,
)
from tests.support.checkout import CHECKOUT

DAY = 20_000
NOON = DAY * DAY_MS + DAY_MS // 2
OVER = (DAY + 1) * DAY_MS + CLOSED_AFTER_MS


def file(
    name: str,
    *,
    rows: int | None = 21,
    at_ms: int | None = NOON,
    until_ms: int | None = None,
    size: int = 8_000,
) -> DataFile:
    return DataFile(name, size, rows, at_ms, at_ms if until_ms is None else until_ms)


def files(count: int, **values: int | None) -> list[DataFile]:
    return [file(f"{number:05}", **values) for number in range(count)]  # type: ignore[arg-type]


def taken(merges: list[Merge]) -> list[list[str]]:
    return [[one.path for one in merge.files] for merge in merges]


def test_a_few_files_of_today_wait_for_more() -> None:
    assert due_merges(files(FANOUT - 1), now_ms=NOON) == []
    (merge,) = due_merges(files(FANOUT), now_ms=NOON)
    assert (len(merge.files), merge.day) == (FANOUT, DAY)


def test_what_is_much_larger_is_left_alone_until_there_is_more_of_it() -> None:
    merged = [file(f"merged-{number}", rows=252) for number in range(FANOUT - 1)]
    small = files(FANOUT)
    assert taken(due_merges([*merged, *small], now_ms=NOON)) == [[one.path for one in small]]
    (merge,) = due_merges([*merged, file("merged-last", rows=252), *small[:3]], now_ms=NOON)
    assert len(merge.files) == FANOUT + 3, "the smaller ones come along"


def test_a_day_that_is_over_becomes_one_file() -> None:
    of_the_day = [file("large", rows=100_000), file("small")]
    assert due_merges(of_the_day, now_ms=OVER - 1) == []
    assert taken(due_merges(of_the_day, now_ms=OVER)) == [["large", "small"]]
    assert due_merges(of_the_day[:1], now_ms=OVER) == []


def test_days_are_never_mixed() -> None:
    days = [file(f"{day}-{number}", at_ms=NOON + day * DAY_MS) for day in (0, 1) for number in (0, 1)]
    merges = due_merges(days, now_ms=OVER + 5 * DAY_MS)
    assert [merge.day for merge in merges] == [DAY, DAY + 1]
    assert taken(merges) == [["0-0", "0-1"], ["1-0", "1-1"]]


def test_files_of_several_days_are_taken_apart() -> None:
    mixed = file("mixed", until_ms=NOON + DAY_MS)
    (merge,) = due_merges([mixed, file("other")], now_ms=NOON)
    assert (taken([merge]), merge.day) == ([["mixed"]], None)


def test_files_that_say_nothing_wait_until_there_are_enough() -> None:
    assert due_merges(files(FANOUT - 1, rows=None, at_ms=None), now_ms=OVER) == []
    (merge,) = due_merges(files(FANOUT, rows=None, at_ms=None), now_ms=OVER)
    assert (len(merge.files), merge.day) == (FANOUT, None)


@pytest.mark.parametrize(
    ("large", "is_merged"),
    [
        (file("large", size=TARGET_BYTES // 2), False),
        (file("large", size=TARGET_BYTES // 2 - 1), True),
        (file("large", rows=TARGET_ROWS // 2), False),
        (file("large", rows=TARGET_ROWS // 2 - 1), True),
    ],
)
def test_what_is_large_enough_is_never_merged_again(large: DataFile, *, is_merged: bool) -> None:
    assert bool(due_merges([large, file("small")], now_ms=OVER)) is is_merged


def test_a_merge_is_bounded_in_bytes_and_rows() -> None:
    by_size = due_merges(files(10, size=TARGET_BYTES // 4), now_ms=OVER)
    assert [len(merge.files) for merge in by_size] == [4, 4, 2]
    by_rows = due_merges(files(10, rows=TARGET_ROWS // 4), now_ms=OVER)
    assert [len(merge.files) for merge in by_rows] == [4, 4, 2]


def test_what_waits_is_counted() -> None:
    assert files_behind(files(FANOUT - 1), now_ms=NOON) == 0
    assert files_behind(files(BEHIND_FILES), now_ms=NOON) == BEHIND_FILES


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 500), appends_a_pass=st.integers(1, 40))
def test_a_row_is_rewritten_seldom_and_files_stay_few(rows: int, appends_a_pass: int) -> None:
    """A driver's day, with a pass after every few appends."""
    held: list[DataFile] = []
    rewritten = most = 0
    appends = 4_000
    for number in range(appends):
        held.append(file(f"{number:05}", rows=rows))
        if number % appends_a_pass:
            continue
        for merge in due_merges(held, now_ms=NOON):
            total = sum(one.rows or 0 for one in merge.files)
            rewritten += total
            held = [one for one in held if one not in merge.files]
            held.append(file(f"{number:05}-merged", rows=total, size=8_000 + 12 * total))
        most = max(most, len(held))
    assert sum(one.rows or 0 for one in held) == appends * rows
    assert rewritten <= 5 * appends * rows
    assert most <= 60 + appends_a_pass


@given(
    st.lists(
        st.tuples(
            st.integers(0, TARGET_BYTES),
            st.one_of(st.none(), st.integers(0, TARGET_ROWS)),
            st.one_of(st.none(), st.integers(NOON - 3 * NOON)),
            st.integers(0, DAY_MS),
        ),
        max_size=60,
    )
)
def test_no_file_is_in_two_merges(made: list[tuple[int, int | None, int | None, int]]) -> None:
    found = [
        DataFile(f"{number:03}", size, rows, at_ms, None if at_ms is None else at_ms + span)
        for number, (size, rows, at_ms, span) in enumerate(made)
    ]
    merges = due_merges(found, now_ms=NOON)
    counted = Counter(one.path for merge in merges for one in merge.files)
    assert set(counted.values()) <= {1}
    for merge in merges:
        assert merge.day is None or {one.day for one in merge.files} == {merge.day}
        assert len(merge.files) == 1 or merge.size_bytes <= TARGET_BYTES


def test_rows_are_sorted_by_columns_that_say_something_in_every_row() -> None:
    for table, names in SORTED_BY.items():
        columns = {column.name: column for column in TABLE_BY_NAME[table].columns}
        assert [name for name in names if columns[name].nullable] == []


def test_the_protocol_names_what_rows_are_sorted_by() -> None:
    protocol = (CHECKOUT / "ledger" / "PROTOCOL.md").read_text(encoding="utf-8")
    stated = " ".join(protocol.partition("3. **Order.**")[2].partition("4. **Seldom.**")[0].split())
    for table, names in SORTED_BY.items():
        assert f"{', '.join(f'`{name}`' for name in names)} (`{table}`)" in stated
