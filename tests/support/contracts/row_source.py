"""What `RowSource` promises, whoever keeps the rows."""

from dataclasses import dataclass
from typing import Protocol

from ledger.facts.state import FactLog, RowSource
from ledger.facts.tables import OFFSET_SYNCS, STAMP, TABLE_BY_NAME, WRITERS, Filter
from tests.support.ledger_rows import TABLE, WRITER, claim, claim_row, row, watermark

OTHER_WRITER = "recorder:west"
STAMPED = {column.name for column in STAMP}


class MergedStore(Protocol):
    """A ledger with nothing in it, whose files can be merged."""

    @property
    def log(self) -> FactLog: ...

    def merge(self, table: str) -> None:
        """Make one file of all that the table has."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """A ledger, and the source under test, which looks at it again and again."""

    store: MergedStore
    source: RowSource

    def ends(self, *filters: Filter) -> list[int]:
        """The high watermarks of the rows that pass."""
        return [found["high_watermark"] for found in self.source.rows(TABLE, filters)]


def at(high_watermark: int, **columns: object) -> dict[str, object]:
    return {**watermark(high_watermark), **columns}


FILTERED: list[tuple[list[Filter], list[int]]] = [
    ([], [1, 2, 3]),
    ([("high_watermark", "=", 2)], [2]),
    ([("high_watermark", "<", 2)], [1]),
    ([("high_watermark", ">=", 2)], [2, 3]),
    ([("high_watermark", "in", [3, 1, 9])], [1, 3]),
    ([("high_watermark", "in", [])], []),
    ([("high_watermark", "not in", [3, 1])], [2]),
    ([("high_watermark", ">=", 2), ("topic", "=", "t")], [2]),
    ([("topic", "=", "' or true --")], []),
    # Null compares with nothing.
    ([("leader_epoch", "=", 5)], [1]),
    ([("leader_epoch", "<", 9)], [1, 3]),
    ([("leader_epoch", ">=", 0)], [1, 3]),
    ([("leader_epoch", "in", [5, 7])], [1, 3]),
    ([("leader_epoch", "not in", [5])], [3]),
    ([("leader_epoch", "not in", [])], [1, 2, 3]),
]
"""What passes of rows with the ends 1, 2 and 3 and the leader epochs 5, null and 7; the last is of topic u."""


class RowSourceContract:
    """Whoever inherits has the fixture `rows`."""

    def test_rows_pass_all_filters(self, rows: Rows) -> None:
        stored = [at(1, leader_epoch=5), at(2), at(3, leader_epoch=7, topic="u")]
        rows.store.log.append(claim(rows.store.log), TABLE, 1, stored)
        found = [(filters, rows.ends(*filters)) for filters, _ in FILTERED]
        assert found == FILTERED

    def test_a_row_is_what_was_appended_and_its_stamp(self, rows: Rows) -> None:
        gaps = [{"source_start": 1, "source_end": 3, "cause": "control"}]
        whole = row(OFFSET_SYNCS.name, flow="f", source_end=4, gaps=gaps, recovered=True)
        appended = {name: value for name, value in whole.items() if name not in STAMPED}
        rows.store.log.append(claim(rows.store.log), OFFSET_SYNCS.name, 3, [appended])
        [found] = rows.source.rows(OFFSET_SYNCS.name, [("flow", "=", "f")])
        assert list(found) == list(TABLE_BY_NAME[OFFSET_SYNCS.name].column_names)
        assert {name: value for name, value in found.items() if name not in STAMPED} == appended
        assert (found["writer"], found["writer_epoch"], found["round"]) == (WRITER, 1, 3)

    def test_a_table_without_rows_has_none(self, rows: Rows) -> None:
        assert rows.source.rows(TABLE, []) == []
        assert rows.source.newest(TABLE, [], ("topic",)) == []
        assert rows.source.last_recorded_at_ms(WRITER) is None

    def test_each_look_sees_what_was_appended_and_merged_since(self, rows: Rows) -> None:
        operation = row("operations", operation_id="o", kind="pause", flow="f", content="{}")
        asked = {name: value for name, value in operation.items() if name not in STAMPED}
        for number in range(1, 5):
            rows.store.log.append_next("operator", "operations", [asked])
            if number == 3:
                rows.store.merge("operations")
            found = rows.source.rows("operations", [("kind", "in", ["pause"])])
            assert [one["round"] for one in found] == list(range(1, number + 1))

    def test_rows_of_a_writer_are_in_the_order_of_recording_whatever_became_of_files(
        self, rows: Rows
    ) -> None:
        log = rows.store.log
        for host, rounds in (("host:1:1", (1, 2, 10)), ("host:2:2", (1, 9))):
            claimed = claim(log, host)
            for number in rounds:
                # Sorted files have them the other way about.
                end = 100 - 20 * claimed.epoch - number
                log.append(claimed, TABLE, number, [at(end, topic=f"t{end:02}")])
        expected = [79, 78, 70, 59, 51]
        assert rows.ends() == expected
        rows.store.merge(TABLE)
        assert rows.ends() == expected
        assert rows.ends(("high_watermark", "<", 79), ("topic", "not in", ["t59"])) == [78, 70, 51]

    def test_the_newest_row_of_each_combination_is_of_the_latest_epoch_and_round(self, rows: Rows) -> None:
        log = rows.store.log
        first = claim(log)
        log.append(first, TABLE, 1, [at(1, leader_epoch=1), at(2, partition=1), at(3, topic="u")])
        log.append(first, TABLE, 9, [at(4, partition=1, leader_epoch=2), at(9, cluster="west")])
        log.append(claim(log, "host:2:2"), TABLE, 1, [at(5), at(6, topic_id="U")])
        grain = ("topic", "topic_id", "partition")
        found = rows.source.newest(TABLE, [("cluster", "=", "east")], grain)
        told = {tuple(one[name] for name in grain): one["high_watermark"] for one in found}
        assert told == {("t", "T", 0): 5, ("t", "T", 1): 4, ("u", "T", 0): 3, ("t", "U", 0): 6}
        [rewritten] = [one for one in found if one["high_watermark"] == 5]
        assert rewritten["leader_epoch"] is None, "null, for the newest row has none"
        assert rewritten == watermark(5)

    def test_of_each_epoch_the_claim_and_the_last_of_every_other_event_are_there(self, rows: Rows) -> None:
        log = rows.store.log
        for host in ("host:1:1", "host:2:2"):
            claimed = claim(log, host)
            for number, event in enumerate(("alive", "alive", "released"), 1):
                said = {**claim_row(host), "event": event, "shut_out": None}
                log.append(claimed, WRITERS.name, number, [said])
        claim(log, writer=OTHER_WRITER)
        found = rows.source.claims([("writer", "=", WRITER)])
        told = [(one["writer_epoch"], one["round"], one["event"]) for one in found]
        of_each = [(0, "claimed"), (2, "alive"), (3, "released")]
        assert set(told) >= {(epoch, *entry) for epoch in (1, 2) for entry in of_each}
        assert {epoch for epoch, _, _ in told} == {1, 2}
        assert [one["host"] for one in rows.source.claims([("event", "=", "claimed")])].count("host:1:1") == 2

    def test_when_a_writer_last_appended_is_told_over_all_tables(self, rows: Rows) -> None:
        log = rows.store.log
        claimed = claim(log)
        claim(log, writer=OTHER_WRITER)
        [begun] = rows.source.rows("writers", [("writer", "=", WRITER)])
        assert rows.source.last_recorded_at_ms(WRITER) == begun["recorded_at_ms"]
        log.append(claimed, TABLE, 1, [watermark(1)])
        [appended] = [found["recorded_at_ms"] for found in rows.source.rows(TABLE, [])]
        assert rows.source.last_recorded_at_ms(WRITER) == appended > begun["recorded_at_ms"]
        assert rows.source.last_recorded_at_ms("recorder:nobody") is None
