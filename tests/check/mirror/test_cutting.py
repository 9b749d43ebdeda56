"""Batches that the target refuses, although only a record of them can be refused: cut, copied, found again."""

from dataclasses import replace

import pytest

from ledger.facts.syncs import Gap, GapCause
from ledger.mirror.assignment import Assignment, PartitionResult, StopCause
from ledger.mirror.cutting import cut, cut_behind, records_of, without_keyless
from ledger.mirror.steps import Copy, Skip
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.copy_tasks import NOW_MS, Bench, cause, copy


def _gaps(result: PartitionResult) -> list[Gap]:
    return [gap for sync in result.syncs for gap in sync.gaps]


def _is_tiled(result: PartitionResult) -> bool:
    at = 0
    for sync in result.syncs:
        gaps = sum(gap.source_end - gap.source_start for gap in sync.gaps)
        assert (sync.source_start, sync.source_end - at - gaps) == (at, sync.records)
        at = sync.source_end
    return at == result.position.source_offset


def test_parts_tile_the_batch_with_its_gaps() -> None:
    step = copy(10, 20, Gap(13, 15, GapCause.FILTERED), raw=False)
    first, second, third = cut(step, {14, 17, 10, 20, 99})
    assert isinstance(first, Copy)
    assert isinstance(second, Copy)
    assert isinstance(third, Copy)
    assert (first.source_start, first.source_end, first.count) == (10, 14, 3)
    assert first.gaps == (Gap(13, 14, GapCause.FILTERED),)
    assert (second.gaps, second.count) == ((Gap(14, 15, GapCause.FILTERED),), 2)
    assert [offset for offset, _ in records_of(third)] == [17, 18, 19]
    assert not first.raw


def test_a_part_without_records_is_a_gap() -> None:
    step = copy(10, 13, Gap(10, 11, GapCause.COMPACTED), Gap(12, 13, GapCause.FILTERED), raw=False)
    before, record, behind = cut(step, {11, 12})
    assert (before, behind) == (
        Skip(Gap(10, 11, GapCause.COMPACTED), 4),
        Skip(Gap(12, 13, GapCause.FILTERED), 4),
    )
    assert isinstance(record, Copy)
    assert (record.source_start, record.source_end, record.gaps) == (11, 12, ())


@pytest.mark.parametrize("records", [0, 3, 4])
def test_nothing_is_cut_off_at_the_ends(records: int) -> None:
    step = copy(10, 13)
    assert cut_behind(step, records) == [step]


def _keyless(*keys: bytes | None) -> bytes:
    return application_batch([content(key, b"v") for key in keys], [NOW_MS] * len(keys)).encoded()


def test_records_without_a_key_become_gaps_of_their_own() -> None:
    view = memoryview(bytearray(_keyless(b"a", None, None, b"b", None)))
    [kept] = without_keyless(Copy(5, 10, view, 0, 5, (), True, NOW_MS, NOW_MS, 1))
    assert isinstance(kept, Copy)
    assert kept.gaps == (Gap(6, 8, GapCause.KEYLESS), Gap(9, 10, GapCause.KEYLESS))
    assert [offset for offset, _ in records_of(kept)] == [5, 8]


# -- whole tasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [400, 250, 120])
def test_a_batch_above_the_limit_is_copied_in_parts(limit: int) -> None:
    bench = Bench()
    bench.target_log().max_message_bytes = limit
    bench.write(2, 20, 3, 40)
    [result] = bench.run(bench.assignment())
    assert (cause(result), result.position.source_offset, bench.target_log().end) == (None, 65, 65)
    assert bench.is_copied()
    assert _is_tiled(result)
    assert "MESSAGE_TOO_LARGE" in str(result.cut)
    assert all(len(batch) <= limit for _, batch in bench.target_log().batches())


@pytest.mark.parametrize("lost", [0, 1, 5, 11])
def test_parts_that_were_not_recorded_are_found_again(lost: int) -> None:
    """A driver that died had cut a batch; the next one knows nothing of that, and the limit may be another by now."""
    bench = Bench()
    bench.target_log().max_message_bytes = 250
    bench.write(2, 20, 3, 40)
    first = bench.assignment()
    bench.run(first)
    log = bench.target_log()
    log.lose_end(log.end - lost)
    ends = log.end
    log.max_message_bytes = 1 << 20
    [again] = bench.run(first)
    assert cause(again) is None
    found = [sync for sync in again.syncs if sync.recovered]
    assert [sync.records for sync in found] == [ends]
    assert all(sync.checksum is not None for sync in found), "batch by batch, without a search"
    assert bench.is_copied()
    assert _is_tiled(again)


def _compacted(assignment: Assignment) -> Assignment:
    return replace(assignment, is_source_cleaned=True, is_target_cleaned=True)


def _mixed(bench: Bench) -> None:
    for keys in ((b"a", b"b"), (b"c", None, b"d"), (None, None), (None,), (b"e", None), (b"f",)):
        batch = application_batch([content(key, b"v") for key in keys], [NOW_MS] * len(keys))
        bench.source_log().append(batch, now_ms=NOW_MS)


def _keys(bench: Bench) -> list[bytes]:
    return [record.content[1:2] for record in bench.target_log().readable()]


def test_records_without_a_key_of_a_compacted_topic_are_gaps() -> None:
    bench = Bench()
    bench.target_log().refuses_keyless = True
    _mixed(bench)
    [result] = bench.run(_compacted(bench.assignment()))
    assert (cause(result), result.position.source_offset) == (None, 11)
    assert _keys(bench) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert {gap.cause for gap in _gaps(result)} == {GapCause.KEYLESS}
    assert _is_tiled(result)


@pytest.mark.parametrize("left", [6, 5, 4, 3, 2])
def test_such_gaps_are_found_again(left: int) -> None:
    bench = Bench()
    log = bench.target_log()
    log.refuses_keyless = True
    _mixed(bench)
    first = _compacted(bench.assignment())
    bench.run(first)
    log.lose_end(left)
    ends = log.end
    [again] = bench.run(first)
    assert cause(again) is None
    assert sum(sync.records for sync in again.syncs if sync.recovered) == ends
    assert _keys(bench) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert _is_tiled(again)


def test_elsewhere_such_a_record_stops_the_partition_and_all_before_it_is_copied() -> None:
    bench = Bench()
    bench.target_log().refuses_keyless = True
    _mixed(bench)
    [result] = bench.run(bench.assignment())
    assert (cause(result), result.position.source_offset) == (StopCause.REFUSED, 3)
    assert result.refused is not None
    assert result.refused.offset == 3
    assert (result.trouble, result.unreached) == (None, ()), "the target has answered"
    assert "--offset 4" in str(result.stop)
    assert _keys(bench) == [b"a", b"b", b"c"]
