"""Offset syncs from settled steps, their rows, and the tail's batches piece by piece."""

from dataclasses import replace

import pytest

from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import SEQUENCE_MODULUS, Gap, GapCause, OffsetSync, SyncCause, SyncKind
from ledger.facts.tables import OFFSET_SYNCS, STAMP
from ledger.kafka.batches import LOG_APPEND_TIME, payload_checksum, read_header
from ledger.mirror.steps import Skip
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import TailBatch, TargetTail, paired
from tests.simulation.kafka.stored_batches import Producer, StoredBatch, application_batch, content, marker
from tests.support.copy_tasks import SOURCE, TARGET, assignment, copy


def skip(start: int, end: int, cause: GapCause) -> Skip:
    return Skip(Gap(start, end, cause), leader_epoch=4)


def ranges(syncs: tuple[OffsetSync, ...]) -> list[tuple[int, int, int, int, int]]:
    return [(s.source_start, s.source_end, s.target_start, s.target_end, s.first_sequence) for s in syncs]


def test_a_contiguous_round_is_one_sync() -> None:
    builder = SyncBuilder(assignment(position=10, target_end=50, next_sequence=7))
    first, second = copy(10, 12, timestamp=300), copy(13, 16, raw=False, timestamp=200)
    builder.copied(first, base_offset=50, recovered=False)
    builder.skip(skip(12, 13, GapCause.CONTROL))
    builder.copied(second, base_offset=52, recovered=False)
    [sync] = builder.syncs()
    assert ranges((sync,)) == [(10, 16, 50, 55, 7)]
    assert sync.gaps == (Gap(12, 13, GapCause.CONTROL),)
    assert (sync.first_timestamp_ms, sync.last_timestamp_ms) == (300, 300)
    assert (sync.records, sync.raw_batches, sync.record_path_batches) == (5, 1, 1)
    assert sync.bytes == len(first.batch) + len(second.batch)
    assert sync.checksum == payload_checksum(second.batch, payload_checksum(first.batch, 0))
    assert (
        builder.position.source_offset,
        builder.position.target_offset,
        builder.position.next_sequence,
    ) == (16, 55, 12)


def test_a_break_at_the_target_begins_another_sync() -> None:
    builder = SyncBuilder(assignment())
    builder.copied(copy(0, 2), base_offset=0, recovered=False)
    builder.copied(copy(2, 3), base_offset=5, recovered=False)
    assert ranges(builder.syncs()) == [(0, 2, 0, 2, 0), (2, 3, 5, 6, 2)]


def test_another_leader_epoch_of_the_source_begins_another_sync() -> None:
    """So that a truncation lies between two of them, and a commit's epoch tells how far it can count."""
    builder = SyncBuilder(assignment())
    builder.copied(copy(0, 2), base_offset=0, recovered=False)
    builder.copied(replace(copy(2, 3), leader_epoch=6), base_offset=2, recovered=False)
    builder.skip(Skip(Gap(3, 5, GapCause.CONTROL), leader_epoch=6))
    builder.skip(Skip(Gap(5, 6, GapCause.CONTROL), leader_epoch=7))
    builder.skip(Skip(Gap(6, 7, GapCause.COMPACTED), leader_epoch=None))
    syncs = builder.syncs()
    assert ranges(syncs) == [(0, 2, 0, 2, 0), (2, 5, 2, 3, 2), (5, 7, 3, 3, 3)]
    assert [sync.source_leader_epoch for sync in syncs] == [4, 6, 7]
    assert builder.position.leader_epoch == 7


def test_recovered_batches_are_a_sync_of_their_own() -> None:
    builder = SyncBuilder(assignment())
    builder.copied(copy(0, 2), base_offset=0, recovered=True)
    builder.copied(copy(2, 3), base_offset=2, recovered=False)
    syncs = builder.syncs()
    assert [sync.recovered for sync in syncs] == [True, False]
    assert ranges(syncs) == [(0, 2, 0, 2, 0), (2, 3, 2, 3, 2)]


def test_gaps_alone_are_progress_without_records() -> None:
    builder = SyncBuilder(assignment(position=3, target_end=9, next_sequence=5))
    builder.skip(skip(3, 5, GapCause.ABORTED))
    builder.skip(skip(5, 6, GapCause.ABORTED))
    builder.skip(skip(6, 7, GapCause.CONTROL))
    [sync] = builder.syncs()
    assert ranges((sync,)) == [(3, 7, 9, 9, 5)]
    assert sync.gaps == (Gap(3, 6, GapCause.ABORTED), Gap(6, 7, GapCause.CONTROL))
    assert (sync.records, sync.checksum, sync.first_timestamp_ms, sync.source_leader_epoch) == (
        0,
        None,
        None,
        4,
    )


def test_gaps_before_the_first_record_go_where_it_lands() -> None:
    builder = SyncBuilder(assignment())
    builder.skip(skip(0, 2, GapCause.COMPACTED))
    builder.copied(copy(2, 4), base_offset=8, recovered=False)
    assert ranges(builder.syncs()) == [(0, 4, 8, 10, 0)]


def test_a_sync_ends_behind_the_batch_with_which_it_has_too_many_gaps() -> None:
    """One of two records is left out, batch after batch."""
    builder, per_batch, records, target = SyncBuilder(assignment()), 400, 800, 0
    for start in range(0, 30 * records, records):
        gaps = (Gap(start + 2 * n, start + 2 * n + 1, GapCause.FILTERED) for n in range(per_batch))
        builder.copied(copy(start, start + records, *gaps), base_offset=target, recovered=False)
        target += records - per_batch
    syncs = builder.syncs()
    assert [len(sync.gaps) for sync in syncs] == [10_000, 2_000]
    assert ranges(syncs) == [
        (0, 20_000, 0, 10_000, 0),
        (20_000, 24_000, 10_000, 12_000, 10_000),
    ]
    assert builder.gap_count == 12_000


def test_a_hole_is_one_though_a_sync_ended_in_it() -> None:
    builder = SyncBuilder(assignment())
    for start in range(0, 20_000, 2):
        builder.skip(skip(start, start + 1, GapCause.FILTERED))
        builder.skip(skip(start + 1, start + 2, GapCause.COMPACTED))
    assert builder.ends_in_hole


def test_nothing_done_is_no_sync_and_sequences_wrap() -> None:
    assert SyncBuilder(assignment()).syncs() == ()
    builder = SyncBuilder(assignment(next_sequence=SEQUENCE_MODULUS - 1))
    builder.copied(copy(0, 3), base_offset=0, recovered=False)
    assert builder.position.next_sequence == 2


@pytest.mark.parametrize("kind", list(SyncKind))
def test_a_row_has_every_column_of_the_table_but_the_stamp(kind: SyncKind) -> None:
    builder = SyncBuilder(assignment())
    builder.copied(copy(0, 4, Gap(1, 2, GapCause.COMPACTED)), base_offset=3, recovered=True)
    sync = replace(builder.syncs()[0], kind=kind, cause=SyncCause.RETENTION)
    row = sync_row(FlowIdentity("east-to-west", "east", "west"), sync)
    assert row.keys() == {c.name for c in OFFSET_SYNCS.columns if c not in STAMP}
    assert (row["flow"], row["source_cluster"], row["target_cluster"]) == ("east-to-west", "east", "west")
    assert (row["source_topic_id"], row["target_topic_id"]) == (SOURCE.topic_id, TARGET.topic_id)
    assert row["gaps"] == [{"source_start": 1, "source_end": 2, "cause": "compacted"}]
    assert (row["kind"], row["cause"], row["recovered"]) == (str(kind), "retention", True)
    assert (row["source_end"], row["target_start"], row["target_end"], row["records"]) == (4, 3, 6, 3)


def own(base_offset: int, count: int) -> bytes:
    batch = application_batch(
        [content(b"k", b"v")] * count, [5] * count, producer=Producer(40, 0, base_offset)
    )
    return replace(batch, base_offset=base_offset).encoded()


def head_offset(tail: TargetTail) -> int:
    assert tail.head is not None
    return tail.head.header.base_offset


def test_a_tail_is_complete_at_the_high_watermark() -> None:
    tail = TargetTail(start=4)
    assert tail.needs_read
    tail.add(memoryview(own(2, 1) + own(3, 2) + own(5, 1)), high_watermark=9)
    assert (tail.position, tail.complete, tail.needs_read) == (6, False, False)
    assert head_offset(tail) == 3, "a batch that reaches over the start is looked at"
    tail.pop()
    tail.pop()
    assert tail.needs_read
    control = replace(marker(1, 0, timestamp=5, commit=True), base_offset=6).encoded()
    tail.add(memoryview(control + own(7, 2)), high_watermark=9)
    assert (head_offset(tail), tail.complete) == (7, True)


def test_an_empty_tail_is_complete_at_once() -> None:
    tail = TargetTail(start=4)
    tail.add(memoryview(b""), high_watermark=4)
    assert tail.complete
    assert tail.head is None


def found(batch: bytes) -> TailBatch:
    view = memoryview(batch)
    return TailBatch(read_header(view), view)


def test_records_are_compared_one_by_one_where_bytes_differ() -> None:
    contents = [content(b"k", b"v"), content(None, b"w")]
    plain = application_batch(contents, [5, 3])
    step = replace(copy(0, 2), batch=memoryview(plain.encoded()))
    assert paired(step, found(plain.encoded()), others_may_be_deleted=False) is step
    assert paired(step, found(replace(plain, attributes=1).encoded()), others_may_be_deleted=False) is step
    assert (
        paired(step, found(application_batch(contents, [5, 4]).encoded()), others_may_be_deleted=False)
        is None
    )
    assert (
        paired(step, found(application_batch(contents[::-1], [5, 3]).encoded()), others_may_be_deleted=False)
        is None
    )
    assert (
        paired(step, found(application_batch(contents[:1], [5]).encoded()), others_may_be_deleted=False)
        is None
    )


@pytest.mark.parametrize("log_append_time", [0, LOG_APPEND_TIME], ids=["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("codec", [0, 1])
def test_equal_bytes_are_the_same_records_at_the_same_time_only(codec: int, log_append_time: int) -> None:
    """One record in a batch: its time is the base timestamp, and byte 61 on is the same whenever it was written."""
    beat = [content(b"host-1", b"up")]
    sent = replace(application_batch(beat, [5]), attributes=codec)
    step = replace(copy(0, 1), batch=memoryview(sent.encoded()), max_timestamp=5)
    stored = replace(sent, attributes=codec | log_append_time, max_timestamp=99 if log_append_time else 5)
    later = replace(application_batch(beat, [6]), attributes=codec | log_append_time)
    assert later.encoded()[61:] == sent.encoded()[61:]
    assert paired(step, found(stored.encoded()), others_may_be_deleted=False) is step
    assert paired(step, found(later.encoded()), others_may_be_deleted=False) is None


def cleaned(batch: StoredBatch, *kept: int) -> StoredBatch:
    """What a cleaner leaves of a batch: the records at these places, the range as it was."""
    return replace(batch, records=tuple(batch.records[place] for place in kept))


WHOLE = application_batch([content(b"%d" % n, b"v") for n in range(4)], [5, 6, 7, 8])


@pytest.mark.parametrize("kept", [(0, 1, 2, 3), (1, 3), (0,), ()])
def test_a_batch_cleaned_at_the_target_is_still_the_step(kept: tuple[int, ...]) -> None:
    step = replace(copy(10, 14), batch=memoryview(WHOLE.encoded()))
    gone_before = found(cleaned(WHOLE, *kept).encoded())
    assert paired(step, gone_before, others_may_be_deleted=False) is step
    after_a_loss = paired(step, gone_before, others_may_be_deleted=True)
    assert (after_a_loss is step) == bool(kept), "an emptied batch may be the copy of anything that is gone"


@pytest.mark.parametrize("kept_at_target", [(0, 1, 2, 3), (0, 3), (1, 3)])
def test_records_cleaned_at_the_source_since_were_copied_and_are_no_gaps(
    kept_at_target: tuple[int, ...],
) -> None:
    left = application_batch([WHOLE.records[n].content for n in (0, 3)], [5, 8])
    step = replace(copy(10, 14, Gap(11, 13, GapCause.COMPACTED)), batch=memoryview(left.encoded()), count=2)
    told = paired(step, found(cleaned(WHOLE, *kept_at_target).encoded()), others_may_be_deleted=False)
    assert told is not None
    assert (told.gaps, told.count, told.source_start, told.source_end) == ((), 4, 10, 14)


def test_records_at_other_places_or_without_any_in_common_prove_nothing() -> None:
    left = application_batch([WHOLE.records[n].content for n in (0, 3)], [5, 8])
    step = replace(copy(10, 14, Gap(12, 14, GapCause.COMPACTED)), batch=memoryview(left.encoded()), count=2)
    assert paired(step, found(WHOLE.encoded()), others_may_be_deleted=False) is None, (
        "offset 11 is not what lies at index 1"
    )
    other = replace(step, gaps=(Gap(11, 13, GapCause.COMPACTED),))
    assert paired(other, found(cleaned(WHOLE, 1, 2).encoded()), others_may_be_deleted=False) is None
