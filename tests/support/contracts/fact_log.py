"""What `FactLog` promises, whoever keeps the ledger."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import pytest

from ledger.errors import InvalidValueError, PreconditionError, ShutOutError
from ledger.facts.state import FactLog, WriterClaim
from ledger.facts.tables import Row
from tests.support.ledger_rows import TABLE, WRITER, claim, watermark

OTHER_WRITER = "recorder:west"
_Outcome = TypeVar("_Outcome")


class Store(Protocol):
    """A ledger with nothing in it."""

    @property
    def log(self) -> FactLog: ...

    def rows(self, table: str) -> Sequence[dict[str, Any]]:
        """All that the table holds, in any order."""
        ...


class FactLogContract:
    """Invariant L4, and what readers make of stamps. Whoever inherits has the fixture `store`."""

    def test_a_row_is_there_with_its_stamp(self, store: Store) -> None:
        claimed = claim(store.log)
        store.log.append(claimed, TABLE, 1, [watermark(10), watermark(11)])
        found = store.rows(TABLE)
        assert _ends(store) == [10, 11]
        assert {(row["writer"], row["writer_epoch"], row["round"]) for row in found} == {
            (WRITER, claimed.epoch, 1)
        }
        assert len({row["recorded_at_ms"] for row in found}) == 1, "one commit has one time"

    @pytest.mark.parametrize("wrong", [{"high_watermark": 1}, {**watermark(1), "log_strat": 0}])
    def test_a_row_names_the_columns_of_its_table(self, store: Store, wrong: Row) -> None:
        claimed = claim(store.log)
        with pytest.raises(InvalidValueError, match=f"a row of {TABLE} must name its columns; .*log_st"):
            store.log.append(claimed, TABLE, 1, [watermark(1), wrong])
        assert _ends(store) == []

    def test_a_round_is_appended_once(self, store: Store) -> None:
        claimed = claim(store.log)
        for _ in ("first", "again, since the outcome was not known"):
            store.log.append(claimed, TABLE, 1, [watermark(10)])
        assert _ends(store) == [10]

    def test_a_round_without_rows_is_a_round(self, store: Store) -> None:
        claimed = claim(store.log)
        store.log.append(claimed, TABLE, 2, [])
        with pytest.raises(ShutOutError):
            store.log.append(claimed, TABLE, 1, [watermark(1)])
        assert _ends(store) == []

    def test_epochs_of_a_writer_rise_by_one(self, store: Store) -> None:
        assert [claim(store.log, f"host:{n}:{n}").epoch for n in range(3)] == [1, 2, 3]
        assert claim(store.log, writer=OTHER_WRITER).epoch == 1

    def test_a_later_epoch_shuts_the_earlier_one_out(self, store: Store) -> None:
        first = claim(store.log)
        store.log.append(first, TABLE, 1, [watermark(10)])
        second = claim(store.log, "host:2:2")
        for round_number in (1, 2):
            with pytest.raises(ShutOutError, match=f"shut out of {TABLE} by epoch 2"):
                store.log.append(first, TABLE, round_number, [watermark(20)])
        store.log.append(second, TABLE, 1, [watermark(30)])
        assert _ends(store) == [10, 30]

    def test_a_claim_that_is_to_follow_an_epoch_is_refused_after_a_later_one(self, store: Store) -> None:
        """A later epoch counts from its first commit to a table on: its claim may become a row any moment."""
        claimed = claim(store.log)
        assert claim(store.log, "host:2:2", after=claimed.epoch).epoch == 2
        with pytest.raises(ShutOutError, match="epoch 2 is known already; nothing was claimed"):
            claim(store.log, "host:3:3", after=claimed.epoch)
        store.log.append(replace(claimed, epoch=7), TABLE, 1, [])
        with pytest.raises(ShutOutError, match="epoch 7 is known already"):
            claim(store.log, "host:3:3", after=2)
        assert claim(store.log, "host:3:3").epoch == 8

    def test_an_epoch_that_nobody_claimed_after_an_append_is_above_it(self, store: Store) -> None:
        """A table may know of an epoch whose claim never became a row: its driver died in between."""
        claimed = claim(store.log)
        store.log.append(replace(claimed, epoch=7), TABLE, 1, [])
        assert claim(store.log, "host:2:2").epoch == 8

    def test_writers_do_not_shut_each_other_out(self, store: Store) -> None:
        east, west = claim(store.log), claim(store.log, writer=OTHER_WRITER)
        store.log.append(west, TABLE, 1, [watermark(1)])
        claim(store.log, "host:2:2", writer=OTHER_WRITER)
        store.log.append(east, TABLE, 1, [watermark(2)])
        assert _ends(store) == [1, 2]

    def test_a_claim_is_a_row_that_tells_where_tables_were_shut(self, store: Store) -> None:
        first = claim(store.log)
        store.log.append(first, TABLE, 1, [watermark(1)])
        store.log.append(first, TABLE, 5, [watermark(2)])
        second = claim(store.log, "host:2:2")
        begun, taken_over = sorted(store.rows("writers"), key=lambda row: row["writer_epoch"])
        assert (begun["writer_epoch"], begun["host"], begun["shut_out"] or []) == (1, "host:1:1", [])
        assert (taken_over["writer_epoch"], taken_over["round"], taken_over["host"]) == (
            second.epoch,
            0,
            "host:2:2",
        )
        assert _told(taken_over) == {TABLE: (1, 5), "writers": (1, 0)}

    def test_operators_rows_are_one_serial(self, store: Store) -> None:
        assert [store.log.append_next("operator", TABLE, [watermark(n)]) for n in (7, 8, 9)] == [1, 2, 3]
        stamps = [
            (row["round"], row["high_watermark"]) for row in store.rows(TABLE) if row["writer_epoch"] == 0
        ]
        assert sorted(stamps) == [(1, 7), (2, 8), (3, 9)]


class SharedFactLogContract(FactLogContract):
    """What holds as well when several processes, here threads, share the ledger."""

    def test_of_claims_at_once_an_epoch_has_one_holder(self, store: Store) -> None:
        claim(store.log)
        held = [one for one in side_by_side(4, partial(_claimed, store)) if one is not None]
        assert held
        assert len({one.epoch for one in held}) == len(held)

    def test_a_round_that_is_appended_several_times_at_once_is_there_once(self, store: Store) -> None:
        claimed = claim(store.log)
        for number in range(1, 4):
            rows = [watermark(number)]
            appended = side_by_side(4, partial(_append, store, claimed, number, rows))
            assert appended == [None] * 4
        assert _ends(store) == [1, 2, 3]

    def test_of_operators_that_ask_at_once_each_gets_a_place(self, store: Store) -> None:
        places = side_by_side(4, lambda n: store.log.append_next("operator", TABLE, [watermark(n)]))
        assert sorted(places) == [1, 2, 3, 4]
        assert _ends(store) == [0, 1, 2, 3]


def side_by_side(count: int, work: Callable[[int], _Outcome]) -> list[_Outcome]:
    """What comes of doing it so many times at once, each time with its number."""
    with ThreadPoolExecutor(max_workers=count) as threads:
        return list(threads.map(work, range(count)))


def _append(store: Store, claimed: WriterClaim, number: int, rows: Sequence[Row], _which: int) -> None:
    store.log.append(claimed, TABLE, number, rows)


def _claimed(store: Store, number: int) -> WriterClaim | None:
    """The claim, or None when another one came first."""
    try:
        return claim(store.log, f"host:{number}:{number}")
    except PreconditionError:
        return None


def _ends(store: Store) -> list[int]:
    return sorted(int(row["high_watermark"]) for row in store.rows(TABLE))


def _told(row: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """By table the last epoch and round before a claim."""
    return {entry["fact_table"]: (entry["writer_epoch"], entry["round"]) for entry in row["shut_out"]}
