"""What becomes of each fetched batch: raw, re-encoded, or a gap with its cause."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.errors import LedgerUnavailableError, ProtocolError
from ledger.facts.syncs import Gap, GapCause
from ledger.kafka.batches import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    decode,
    read_header,
)
from ledger.kafka.requests import Fetched
from ledger.mirror.source import RecordRules, plan_batches
from ledger.mirror.steps import Copy, Skip, Step
from ledger.topics.naming import KEEP_ALL, RecordFilter
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import (
    Producer,
    StoredBatch,
    StoredRecord,
    application_batch,
    content,
    marker,
)
from tests.support.copy_tasks import answer, fetched_from, writers

NOW_MS = 1_700_000_000_000
NOBODY = Producer()


def dense(
    count: int, *, base_offset: int = 0, attributes: int = 0, producer: Producer = NOBODY
) -> StoredBatch:
    contents = [content(b"k%d" % n, b"v") for n in range(count)]
    batch = application_batch(
        contents, [NOW_MS + n for n in range(count)], attributes=attributes, producer=producer
    )
    return replace(batch, base_offset=base_offset)


def cleaned(base_offset: int, deltas: list[int], *, last: int) -> StoredBatch:
    records = tuple(StoredRecord(delta, NOW_MS + delta, content(b"k%d" % delta, b"v")) for delta in deltas)
    return StoredBatch(
        records=records,
        last_offset_delta=last,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + last,
        base_offset=base_offset,
    )


def planned(
    fetched: Fetched,
    position: int = 0,
    *,
    end_offset: int | None = None,
    mirrors: frozenset[int] = frozenset(),
) -> list[Step]:
    return list(
        plan_batches(
            fetched, position=position, end_offset=end_offset, rules=RecordRules(mirrors.__contains__)
        )
    )


def plan(
    *batches: StoredBatch,
    position: int = 0,
    end_offset: int | None = None,
    mirrors: frozenset[int] = frozenset(),
) -> list[Step]:
    fetched = answer(b"".join(batch.encoded() for batch in batches))
    return planned(fetched, position, end_offset=end_offset, mirrors=mirrors)


def copy_in(steps: list[Step]) -> Copy:
    """The one step, which copies."""
    [step] = steps
    assert isinstance(step, Copy)
    return step


def told(steps: Sequence[Step]) -> list[tuple[int, int, int | GapCause]]:
    """Steps in short: copies as (start, end, records), gaps as (start, end, cause)."""
    return [
        (step.source_start, step.source_end, step.count)
        if isinstance(step, Copy)
        else (step.gap.source_start, step.gap.source_end, step.gap.cause)
        for step in steps
    ]


def transactions(log: PartitionLog, *script: tuple[int, str]) -> None:
    """`(producer id, "write" | "commit" | "abort")` one after another; a write has two records."""
    for producer_id, action in script:
        if action == "write":
            batch = dense(2, attributes=TRANSACTIONAL, producer=Producer(producer_id, 0, 0))
            log.append(batch, now_ms=NOW_MS)
        else:
            log.end_transaction(producer_id, 0, commit=action == "commit", now_ms=NOW_MS)


def test_a_dense_batch_goes_as_the_bytes_it_is() -> None:
    batch = dense(3, base_offset=5)
    step = copy_in(plan(batch, position=5))
    assert told([step]) == [(5, 8, 3)]
    assert step.raw
    assert bytes(step.batch) == batch.encoded()
    assert (step.base_timestamp, step.max_timestamp) == (NOW_MS, NOW_MS + 2)


def test_transactional_and_delete_horizon_bits_do_not_stop_a_raw_copy() -> None:
    assert copy_in(plan(dense(2, attributes=TRANSACTIONAL | DELETE_HORIZON))).raw


def test_control_batches_are_gaps_whatever_is_in_them() -> None:
    empty = replace(marker(9, 0, timestamp=NOW_MS, commit=False), records=(), base_offset=1)
    commit = replace(marker(9, 0, timestamp=NOW_MS, commit=True), base_offset=0)
    assert told(plan(commit, empty)) == [(0, 1, GapCause.CONTROL), (1, 2, GapCause.CONTROL)]


def test_aborted_batches_of_several_producers_in_one_response() -> None:
    log = PartitionLog()
    transactions(
        log, (1, "write"), (2, "write"), (1, "write"), (3, "write"),
        (1, "abort"), (2, "commit"), (3, "abort"), (1, "write"), (1, "commit"),
    )  # fmt: skip
    assert told(planned(fetched_from(log, 0))) == [
        (0, 2, GapCause.ABORTED),
        (2, 4, 2),
        (4, 6, GapCause.ABORTED),
        (6, 8, GapCause.ABORTED),
        (8, 9, GapCause.CONTROL),
        (9, 10, GapCause.CONTROL),
        (10, 11, GapCause.CONTROL),
        (11, 13, 2),
        (13, 14, GapCause.CONTROL),
    ]


def test_one_producer_commits_aborts_and_commits_in_one_response() -> None:
    log = PartitionLog()
    for end in ("commit", "abort", "commit", "abort", "abort"):
        transactions(log, (7, "write"), (7, end))
    steps = planned(fetched_from(log, 0))
    copies = [(step.source_start, step.source_end) for step in steps if isinstance(step, Copy)]
    assert copies == [(0, 2), (6, 8)]


def test_an_abort_marker_before_the_position_ends_its_transaction() -> None:
    """A broker may return batches that were asked for no more; their markers count all the same."""
    log = PartitionLog()
    transactions(log, (7, "write"), (7, "abort"), (7, "write"), (7, "commit"))
    assert told(planned(fetched_from(log, 0), 3)) == [(3, 5, 2), (5, 6, GapCause.CONTROL)]


def test_plain_batches_between_aborted_ones_are_copied() -> None:
    log = PartitionLog()
    transactions(log, (7, "write"))
    log.append(dense(1, producer=Producer(7, 0, 2)), now_ms=NOW_MS)
    transactions(log, (7, "abort"))
    assert told(planned(fetched_from(log, 0)))[:2] == [(0, 2, GapCause.ABORTED), (2, 3, 1)]


def test_holes_before_inside_and_after_the_records_of_a_batch() -> None:
    [before, *rest] = plan(cleaned(4, [1, 2, 5], last=7), position=2)
    step = copy_in(rest)
    assert told([before, step]) == [(2, 4, GapCause.COMPACTED), (4, 12, 3)]
    assert step.gaps == tuple(Gap(*ends, GapCause.COMPACTED) for ends in ((4, 5), (7, 9), (10, 12)))
    assert not step.raw
    header = read_header(step.batch)
    assert header.is_dense
    records = decode(header, step.batch)
    assert [record.content for record in records] == [content(b"k%d" % delta, b"v") for delta in (1, 2, 5)]
    assert [record.timestamp for record in records] == [NOW_MS + delta for delta in (1, 2, 5)]
    assert (step.base_timestamp, step.max_timestamp) == (NOW_MS + 1, NOW_MS + 5)


def test_batches_that_lost_all_their_records_are_gaps() -> None:
    assert told(plan(cleaned(0, [], last=4), dense(1, base_offset=5))) == [
        (0, 5, GapCause.COMPACTED),
        (5, 6, 1),
    ]


@pytest.mark.parametrize(
    ("position", "expected"),
    [(4, (4, 6, 2)), (5, (5, 6, 1)), (3, (3, 6, 3))],
)
def test_a_start_inside_a_batch_takes_the_rest_of_it(position: int, expected: tuple[int, int, int]) -> None:
    step = copy_in(plan(dense(6), position=position))
    assert told([step]) == [expected]
    assert step.gaps == ()
    assert not step.raw


def test_a_start_behind_the_last_record_of_a_cleaned_batch_is_a_gap() -> None:
    assert told(plan(cleaned(0, [0, 1], last=5), position=3)) == [(3, 6, GapCause.COMPACTED)]


def test_a_start_inside_an_aborted_batch_leaves_the_rest_out() -> None:
    log = PartitionLog()
    transactions(log, (7, "write"), (7, "abort"))
    assert told(planned(fetched_from(log, 1), 1)) == [(1, 2, GapCause.ABORTED), (2, 3, GapCause.CONTROL)]


def test_log_append_time_keeps_what_the_sources_readers_saw() -> None:
    log = PartitionLog(log_append_time=True)
    log.append(dense(3), now_ms=NOW_MS + 77_000)
    seen = [(record.timestamp, record.content) for record in log.readable()]
    step = copy_in(planned(fetched_from(log, 0)))
    header = read_header(step.batch)
    assert not step.raw
    assert not step.attributes & LOG_APPEND_TIME
    assert [(r.timestamp, r.content) for r in decode(header, step.batch)] == seen
    assert {timestamp for timestamp, _ in seen} == {NOW_MS + 77_000}


@pytest.mark.parametrize(("end_offset", "ends"), [(0, []), (1, [2]), (2, [2]), (3, [4]), (4, [4]), (9, [4])])
def test_planning_ends_with_the_batch_that_reaches_stop_at(end_offset: int, ends: list[int]) -> None:
    steps = plan(dense(2), dense(2, base_offset=2), end_offset=end_offset)
    assert [step.source_end for step in steps][-1:] == ends


def test_what_another_mirror_wrote_is_a_gap() -> None:
    mirror = replace(dense(2, producer=Producer(40, 0, 0)))
    other = dense(2, base_offset=2, producer=Producer(41, 0, 0))
    assert told(plan(mirror, other, mirrors=frozenset({40}))) == [(0, 2, GapCause.MIRROR_WRITE), (2, 4, 2)]


MIRROR = Producer(40, 0, 0)


def returned(*ranges: tuple[int, int], count: int = 6) -> list[Step]:
    """The plan of one batch of a mirror, ranges of which are to be copied back."""
    rules = RecordRules(frozenset({40}).__contains__, returning=ranges)
    fetched = answer(dense(count, base_offset=2, producer=MIRROR).encoded())
    return list(plan_batches(fetched, position=2, end_offset=None, rules=rules))


def test_what_a_mirror_wrote_is_copied_where_it_returns() -> None:
    step = copy_in(returned((0, 5), (8, 9))[:1])
    assert step.source_start == 2
    whole = copy_in(returned((2, 8)))
    assert told([whole]) == [(2, 8, 6)]
    assert whole.raw
    for beside in ((0, 2), (8, 12)):
        assert told(returned(beside)) == [(2, 8, GapCause.MIRROR_WRITE)]


def test_a_batch_across_the_end_of_what_returns_is_copied_in_part() -> None:
    step = copy_in(returned((0, 4), (6, 7)))
    assert told([step]) == [(2, 8, 3)]
    assert step.gaps == (Gap(4, 6, GapCause.MIRROR_WRITE), Gap(7, 8, GapCause.MIRROR_WRITE))
    assert not step.raw
    assert [r.content for r in decode(read_header(step.batch), step.batch)] == [
        content(b"k%d" % n, b"v") for n in (0, 1, 4)
    ]


def left_out(
    *ranges: tuple[int, int],
    producer: Producer = NOBODY,
    record_filter: RecordFilter = KEEP_ALL,
    returning: tuple[tuple[int, int], ...] = (),
    kept_local: tuple[tuple[int, int], ...] = (),
) -> list[Step]:
    """The plan of a batch of six records from offset 2 on, ranges of which a flow has adopted."""
    mirrors = frozenset({40})
    rules = RecordRules(
        mirrors.__contains__,
        adopted=ranges,
        record_filter=record_filter,
        returning=returning,
        kept_local=kept_local,
    )
    fetched = answer(dense(6, base_offset=2, producer=producer).encoded())
    return list(plan_batches(fetched, position=2, end_offset=None, rules=rules))


def test_what_was_adopted_is_left_out_whoever_wrote_it() -> None:
    for writer in (NOBODY, Producer(7, 0, 0)):
        assert told(left_out((0, 8), producer=writer)) == [(2, 8, GapCause.MIRROR_WRITE)]
        beside = copy_in(left_out((0, 2), (8, 12), producer=writer))
        assert told([beside]) == [(2, 8, 6)]
        assert beside.raw


def test_a_batch_across_the_end_of_what_was_adopted_is_copied_in_part() -> None:
    step = copy_in(left_out((0, 4), (6, 7), record_filter=RecordFilter(exclude_keys=("k2", "k4"))))
    assert told([step]) == [(2, 8, 2)]
    assert step.gaps == (
        Gap(2, 4, GapCause.MIRROR_WRITE),
        Gap(4, 5, GapCause.FILTERED),
        Gap(6, 7, GapCause.MIRROR_WRITE),
    )
    assert not step.raw


def test_what_was_adopted_makes_a_mirrors_write_no_applications() -> None:
    assert told(left_out((0, 8), producer=MIRROR)) == [(2, 8, GapCause.MIRROR_WRITE)]
    step = copy_in(left_out((0, 4), producer=MIRROR, returning=((4, 8),)))
    assert told([step]) == [(2, 8, 4)]
    assert step.gaps == (Gap(2, 4, GapCause.MIRROR_WRITE),)


def test_what_was_decided_to_stay_is_left_out_and_the_rest_of_its_batch_is_copied() -> None:
    assert told(left_out(kept_local=((0, 8),))) == [(2, 8, GapCause.KEPT_LOCAL)]
    before = copy_in(left_out(kept_local=((8, 12),)))
    assert told([before]) == [(2, 8, 6)]
    assert before.raw
    step = copy_in(left_out((6, 7), kept_local=((2, 4),), record_filter=RecordFilter(exclude_keys=("k2",))))
    assert told([step]) == [(2, 8, 2)]
    assert step.gaps == (
        Gap(2, 4, GapCause.KEPT_LOCAL),
        Gap(4, 5, GapCause.FILTERED),
        Gap(6, 7, GapCause.MIRROR_WRITE),
    )
    assert told(left_out(producer=MIRROR, kept_local=((0, 8),))) == [(2, 8, GapCause.MIRROR_WRITE)]
    assert told(left_out(producer=MIRROR, returning=((0, 8),), kept_local=((0, 8),))) == [
        (2, 8, GapCause.KEPT_LOCAL)
    ]


def test_what_is_known_to_be_empty_or_aborted_needs_no_look_into_the_ledger() -> None:
    def nobody_knows(_producer_id: int) -> bool:
        raise LedgerUnavailableError("away")

    log = PartitionLog()
    transactions(log, (7, "write"), (7, "abort"))
    rules = RecordRules(nobody_knows)
    steps = list(plan_batches(fetched_from(log, 0), position=0, end_offset=None, rules=rules))
    assert told(steps) == [(0, 2, GapCause.ABORTED), (2, 3, GapCause.CONTROL)]


def test_what_comes_before_an_unknown_writer_is_planned() -> None:
    def known(producer_id: int) -> bool:
        if producer_id == 9:
            raise LedgerUnavailableError("away")
        return False

    batches = dense(2).encoded() + dense(2, base_offset=2, producer=Producer(9, 0, 0)).encoded()
    steps = plan_batches(answer(batches), position=0, end_offset=None, rules=RecordRules(known))
    assert next(steps).source_end == 2
    with pytest.raises(LedgerUnavailableError):
        next(steps)


def filtered(*batches: StoredBatch, exclude_keys: tuple[str, ...], position: int = 0) -> list[Step]:
    fetched = answer(b"".join(batch.encoded() for batch in batches))
    chosen = RecordRules(frozenset({40}).__contains__, record_filter=RecordFilter(exclude_keys=exclude_keys))
    return list(plan_batches(fetched, position=position, end_offset=None, rules=chosen))


def test_a_batch_that_is_wholly_kept_stays_raw() -> None:
    step = copy_in(filtered(dense(3), exclude_keys=("other",)))
    assert step.raw
    assert bytes(step.batch) == dense(3).encoded()


def test_a_batch_that_is_wholly_left_out_is_one_gap() -> None:
    assert told(filtered(dense(3), exclude_keys=("k.*",))) == [(0, 3, GapCause.FILTERED)]


def test_a_mixed_batch_is_encoded_again_without_what_is_left_out() -> None:
    step = copy_in(filtered(dense(7, base_offset=3), exclude_keys=("k0", "k1", "k4", "k6"), position=3))
    assert told([step]) == [(3, 10, 3)]
    assert step.gaps == tuple(Gap(*ends, GapCause.FILTERED) for ends in ((3, 5), (7, 8), (9, 10)))
    assert not step.raw
    header = read_header(step.batch)
    assert header.is_dense
    assert [(r.content, r.timestamp) for r in decode(header, step.batch)] == [
        (content(b"k%d" % n, b"v"), NOW_MS + n) for n in (2, 3, 5)
    ]


def test_cleaned_and_filtered_offsets_keep_their_own_causes() -> None:
    step = copy_in(filtered(cleaned(0, [1, 2, 5], last=7), exclude_keys=("k2",)))
    assert step.gaps == (
        Gap(0, 1, GapCause.COMPACTED),
        Gap(2, 3, GapCause.FILTERED),
        Gap(3, 5, GapCause.COMPACTED),
        Gap(6, 8, GapCause.COMPACTED),
    )
    assert told(filtered(cleaned(0, [1, 2], last=3), exclude_keys=("k.*",))) == [
        (0, 1, GapCause.COMPACTED),
        (1, 3, GapCause.FILTERED),
        (3, 4, GapCause.COMPACTED),
    ]


def test_a_filter_starts_inside_a_batch_where_the_flow_stands() -> None:
    assert told(filtered(dense(4), exclude_keys=("k0", "k2"), position=2)) == [(2, 4, 1)]
    assert told(filtered(dense(4), exclude_keys=("k3",), position=3)) == [(3, 4, GapCause.FILTERED)]


def test_times_are_those_that_readers_of_the_source_see() -> None:
    log = PartitionLog(log_append_time=True)
    log.append(dense(3), now_ms=NOW_MS + 77_000)
    rules = RecordRules(frozenset().__contains__, record_filter=RecordFilter(until_ms=NOW_MS + 77_000))
    steps = list(plan_batches(fetched_from(log, 0), position=0, end_offset=None, rules=rules))
    assert told(steps) == [(0, 3, GapCause.FILTERED)]


def test_a_filter_does_not_make_a_mirrors_write_an_applications() -> None:
    assert told(filtered(dense(2, producer=MIRROR), exclude_keys=("k0",))) == [(0, 2, GapCause.MIRROR_WRITE)]


def test_a_broken_crc_stops_before_anything_of_the_batch_is_planned() -> None:
    broken = bytearray(dense(2, base_offset=2).encoded())
    broken[HEADER_BYTES + 1] ^= 1
    steps = plan_batches(
        answer(dense(2).encoded() + bytes(broken)),
        position=0,
        end_offset=None,
        rules=RecordRules(writers().is_mirror),
    )
    assert next(steps).source_end == 2
    with pytest.raises(ProtocolError, match="source offset 2 fails its CRC"):
        next(steps)


def test_the_same_bytes_are_planned_the_same_way_again() -> None:
    batches = (cleaned(0, [1], last=3), dense(2, base_offset=4), dense(1, base_offset=6, attributes=CONTROL))
    first, again = plan(*batches), plan(*batches)
    assert told(first) == told(again)
    assert [bytes(s.batch) for s in first if isinstance(s, Copy)] == [
        bytes(s.batch) for s in again if isinstance(s, Copy)
    ]
    assert not any(isinstance(step, Skip) and step.leader_epoch is None for step in first)


def test_a_delete_horizon_is_not_the_time_that_a_batch_begins_with() -> None:
    """A cleaner writes it where the base timestamp stood; the records' times are told from there."""
    log = PartitionLog()
    day_ms = 86_400_000
    contents = [content(b"gone", None), content(b"kept", b"v")]
    log.append(application_batch(contents, [NOW_MS - 3 * day_ms, NOW_MS - 2 * day_ms]), now_ms=NOW_MS)
    log.compact(log.end, now_ms=NOW_MS)
    [header] = log.headers()
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW_MS + day_ms)
    rules = RecordRules(writers().is_mirror)
    [step] = plan_batches(fetched_from(log, 0), position=0, end_offset=None, rules=rules)
    assert isinstance(step, Copy)
    assert (step.raw, step.base_timestamp) == (True, NOW_MS - 3 * day_ms)
    assert step.max_timestamp == NOW_MS - 2 * day_ms
