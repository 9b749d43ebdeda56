"""Small batches that wait side by side become one, and what was merged is recognised (rules G1 to G5)."""

import random
from dataclasses import replace
from typing import Any

import pytest

from ledger.errors import ProtocolError
from ledger.facts.syncs import Gap, GapCause
from ledger.kafka.batches import (
    HEADER_BYTES,
    TRANSACTIONAL,
    Record,
    decode,
    encode,
    read_header,
    times_and_count,
)
from ledger.kafka.requests import ErrorCode
from ledger.mirror.assignment import CopyLimits, OpenRequests, StopCause
from ledger.mirror.merging import Merging, as_one, concatenated, follows, parts_of
from ledger.mirror.source import RecordRules, plan_batches
from ledger.mirror.steps import Copy, Skip, SmallBatch
from ledger.mirror.task import CopyTask, MergeLimits
from ledger.mirror.window import SendWindow
from tests.simulation.kafka.network import MemoryNetwork
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.copy_tasks import (
    NODE,
    NOW_MS,
    OWN_PRODUCER_ID,
    Bench,
    Target,
    assignment,
    copy,
    fetched_from,
    source_log,
)

LIMIT = 4_000
CAN_BE_ANY = RecordRules(lambda _producer_id: False)


def planned(log: PartitionLog) -> list[Copy | Skip]:
    return list(plan_batches(fetched_from(log, 0), position=0, end_offset=None, rules=CAN_BE_ANY))


def records_of(batch: bytes | memoryview | bytearray) -> list[Record]:
    view = memoryview(bytes(batch))
    return decode(read_header(view), view)


def small(batch: bytes | bytearray) -> SmallBatch:
    base_timestamp, max_timestamp, count = times_and_count(batch)
    return SmallBatch(bytes(batch), count, count, base_timestamp, max_timestamp, raw=True)


def counts(log: PartitionLog) -> list[int]:
    return [header.count for header in log.headers()]


def merging_target(*counts: int, log: PartitionLog | None = None) -> Target:
    return Target(source_log(*counts), assignment(), log, merges_up_to=LIMIT)


# -- Bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [[5], [0, 9], [70_000, -70_000, 3], [-1, -1]])
def test_the_records_of_a_merged_batch_are_those_of_its_parts(times: list[int]) -> None:
    """Bytes of one varint and of several, differences in time forwards and backwards, and more than 64 records."""
    parts = [
        encode(
            [
                Record(0, NOW_MS + n + time, 0, content(b"k" * (time % 90), b"v" * n, [("h", None)]))
                for time in times
            ],
            codec=0,
        )
        for n in range(70)
    ]
    merged = concatenated(0, [small(part) for part in parts])
    wanted = [record for part in parts for record in records_of(part)]
    found = records_of(merged)
    assert [record.offset for record in found] == list(range(len(wanted)))
    assert [record[1:] for record in found] == [record[1:] for record in wanted]
    header = read_header(memoryview(merged))
    assert (header.count, header.is_dense, header.attributes) == (len(wanted), True, 0)
    assert header.max_timestamp == max(record.timestamp for record in wanted)
    assert merged == concatenated(0, [small(part) for part in parts]), "G1"


@pytest.mark.parametrize("damage", [b"", b"\x00", b"\x02", b"\x90\x01\x00\x00\x00\x00"])
def test_what_is_no_batch_is_not_merged(damage: bytes) -> None:
    sound = application_batch([content(b"k", b"v")], [NOW_MS]).encoded()
    with pytest.raises(ProtocolError, match="must hold 1 records"):
        concatenated(0, [small(sound), small(sound[:HEADER_BYTES] + damage)])


def test_what_cannot_be_merged_is_sent_as_it_is() -> None:
    target = merging_target(1, 1, 1)
    target.begin()
    broken = target.copy.window.planned[1]
    assert isinstance(broken, Copy)
    broken.batch[HEADER_BYTES] = 0xFF
    target.send()
    assert counts(target.log) == [1]


# -- What is merged --------------------------------------------------------------------------------


def test_what_waits_is_sent_as_one_and_recorded_for_every_record() -> None:
    target = merging_target(1, 2, 3, 1)
    target.copy_all()
    assert counts(target.log) == [7]
    assert target.ranges() == [(0, 7, 0, 7, False)]
    [sync] = target.copy.result().syncs
    assert (sync.records, sync.raw_batches, sync.record_path_batches, sync.merged_batches) == (7, 0, 1, 4)


def test_a_batch_that_waits_alone_is_sent_as_it_is() -> None:
    target = merging_target(1)
    target.copy_all()
    [sync] = target.copy.result().syncs
    assert (sync.raw_batches, sync.record_path_batches, sync.merged_batches) == (1, 0, None)


def test_batches_of_many_records_are_sent_as_they_are() -> None:
    target = merging_target(9, 1, 8, 9, 1)
    target.copy_all()
    assert counts(target.log) == [9, 9, 9, 1]


def test_no_merged_batch_is_larger_than_the_limit() -> None:
    target = merging_target(*[1] * 500)
    target.copy_all()
    sizes = [header.size for header in target.log.headers()]
    assert max(sizes) <= LIMIT
    assert len(sizes) < 6


def test_nothing_is_merged_where_that_is_not_wanted() -> None:
    target = Target(source_log(1, 1, 1), assignment())
    target.copy_all()
    assert counts(target.log) == [1, 1, 1]


def test_g2_only_plain_neighbours_are_merged() -> None:
    first = copy(0, 1)
    assert follows(first, copy(1, 2))
    assert not follows(first, copy(2, 3)), "a gap"
    assert not follows(first, replace(copy(1, 2), leader_epoch=5)), "another leader epoch"
    assert not follows(first, replace(copy(1, 2), attributes=3)), "a codec"
    assert follows(replace(first, attributes=3), replace(copy(1, 2), attributes=3)), "the same codec"
    assert not follows(first, replace(copy(1, 2), attributes=TRANSACTIONAL)), "a transaction"
    assert not follows(first, replace(copy(1, 2), whole=False)), "a part of a batch"
    assert follows(first, copy(1, 2, raw=False)), "with times of the source's log"
    assert not follows(first, copy(1, 2, timestamp=-1)), "without a time"
    assert not follows(first, copy(1, 3, Gap(1, 2, GapCause.COMPACTED)))
    assert not follows(first, Skip(Gap(1, 2, GapCause.CONTROL), 4))
    assert follows(copy(0, 1, timestamp=-1), copy(1, 2, timestamp=-1))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("is_stamped", [False, True], ids=["CreateTime", "LogAppendTime"])
def test_what_is_compressed_and_what_the_log_gave_its_time_is_merged(codec: int, is_stamped: bool) -> None:
    """Readers of the target see what readers of the source see; who finds it there knows it again."""
    log = PartitionLog()
    log.log_append_time = is_stamped
    for number in range(6):
        batch = application_batch(
            [content(b"%d" % number, b"v" * 90)] * 2, [NOW_MS, NOW_MS + 300], attributes=codec
        )
        log.append(batch, now_ms=NOW_MS + 70_000 * number)
    target = Target(log, assignment(), merges_up_to=LIMIT)
    target.copy_all()
    assert counts(target.log) == [12]
    [header] = target.log.headers()
    assert (header.codec, header.has_log_append_time) == (codec, False)
    seen = [(record.timestamp, record.content) for record in target.log.readable()]
    assert seen == [(record.timestamp, record.content) for record in log.readable()]
    again = Target(log, assignment(), target.log, merges_up_to=LIMIT)
    again.copy_all()
    assert again.ranges() == [(0, 12, 0, 12, True)]


def test_a_compressed_batch_that_is_not_tiny_is_sent_as_it_is() -> None:
    log = PartitionLog()
    for number in range(3):
        batch = application_batch(
            [content(b"%d" % number, random.Random(1).randbytes(1_200))], [NOW_MS], attributes=4
        )
        log.append(batch, now_ms=NOW_MS)
    target = Target(log, assignment(), merges_up_to=LIMIT)
    target.copy_all()
    assert counts(target.log) == [1, 1, 1]


def test_g2_transactions_markers_codecs_and_holes_stand_between() -> None:
    log = PartitionLog()
    one = application_batch([content(b"k", b"v")], [NOW_MS])
    for _ in range(2):
        log.append(one, now_ms=NOW_MS)
    for sequence in range(2):
        written = Producer(9, 0, sequence)
        batch = application_batch([content(b"t", b"v")], [NOW_MS], attributes=TRANSACTIONAL, producer=written)
        log.append(batch, now_ms=NOW_MS)
    log.end_transaction(9, 0, commit=True, now_ms=NOW_MS)
    for attributes in (0, 0, 3, 3, 0):
        log.append(application_batch([content(b"k", b"v")], [NOW_MS], attributes=attributes), now_ms=NOW_MS)
    target = Target(log, assignment(), merges_up_to=LIMIT)
    target.copy_all()
    assert counts(target.log) == [2, 1, 1, 2, 2, 1]
    assert target.ranges() == [(0, 10, 0, 9, False)]


# -- Sent again ------------------------------------------------------------------------------------


def test_g3_what_is_sent_again_has_the_same_ends() -> None:
    target = merging_target(1)
    target.begin()
    target.send()  # and lost: nobody knows
    lost = target.log
    target.log = PartitionLog()
    for number in range(4):
        target.source.append(application_batch([content(b"%d" % number, b"v")], [NOW_MS]), now_ms=NOW_MS)
    target.lose_answer()
    target.copy.doubt("the connection was lost", now=0.0)
    target.copy_all()
    assert counts(target.log) == [1, 4], "the first one alone, as before"
    assert lost.batches() == target.log.batches()[:1]


def test_g3_what_is_settled_has_no_ends_to_keep() -> None:
    merging = Merging(LIMIT)
    for at in range(1_000):
        merging.sent(copy(at, at + 1), settled=at)
    window = SendWindow(OWN_PRODUCER_ID, OpenRequests())
    window.plan(copy(999, 1_000))
    window.plan(copy(1_000, 1_001))
    merging.merge_first(window)
    assert [step.source_end for step in window.planned] == [1_000, 1_001]
    assert len(merging._ends) <= 2


def test_g4_a_refusal_is_of_one_batch_of_the_source() -> None:
    target = merging_target(1, 2, 1)
    target.begin()
    target.copy.send_next(NODE)
    target.lose_answer()
    target.copy.refused(32, "a time", indexes=(), now=0.0)
    target.copy_all()
    assert counts(target.log) == [1, 2, 1]
    assert target.copy.result().cut is None, "nothing of the source was cut"


def test_g4_what_is_too_large_is_merged_less() -> None:
    target = merging_target(*[1] * 100)
    target.begin()
    size = len(target.copy.send_next(NODE))
    target.lose_answer()
    target.copy.refused(10, "too large", indexes=(), now=0.0)
    target.copy_all()
    sizes = [header.size for header in target.log.headers()]
    assert max(sizes) <= size / 4 < 2 * max(sizes)
    assert target.copy.result().cut is None


def test_g4_what_was_too_large_in_one_round_is_not_sent_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, known, refused = Bench(), MergeLimits(), [0]
    bench.target_log().max_message_bytes = 2_000
    produce = PartitionLog.produce

    def counted(log: PartitionLog, batch: bytes, *, now_ms: int) -> Any:
        appended = produce(log, batch, now_ms=now_ms)
        refused[-1] += appended.error == ErrorCode.MESSAGE_TOO_LARGE
        return appended

    monkeypatch.setattr(PartitionLog, "produce", counted)
    position = bench.assignment().position
    for _ in range(2):
        bench.write(*[1] * 200)
        network = MemoryNetwork(bench.source, bench.target, bench.schedule, bench.weather)
        told = replace(bench.assignment(), position=position)
        task = CopyTask([told], network, bench.writers, bench.schedule, CopyLimits(), merged=known)
        [result] = task.run(seconds=5.0)
        position = result.position
        refused.append(0)
    assert bench.is_copied()
    assert refused[0] > 0
    assert refused[1] == 0


# -- Recognised ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 300, LIMIT])
def test_g5_a_tail_is_merged_as_it_was_whatever_the_limit_is_now(limit: int) -> None:
    first = merging_target(1, 2, 3, 1)
    first.copy_all()
    again = Target(first.source, assignment(), first.log, merges_up_to=limit)
    again.copy_all()
    assert again.ranges() == [(0, 7, 0, 7, True)]
    assert counts(first.log) == [7]
    assert [sync.merged_batches for sync in again.copy.result().syncs] == [4]


def test_a_tail_of_merged_and_single_batches_is_recognised_and_written_behind() -> None:
    log = PartitionLog()
    for counted in ([1, 1], [1, 1, 9], [1, 1, 9, 2, 2, 2]):
        target = merging_target(*counted, log=log)
        target.copy_all()
    assert counts(log) == [2, 9, 6]
    assert target.ranges() == [(0, 11, 0, 11, True), (11, 17, 11, 17, False)]


def test_a_merged_tail_waits_until_all_of_its_source_is_read() -> None:
    first = merging_target(1, 1, 1)
    first.copy_all()
    target = Target(first.source, assignment(), first.log, merges_up_to=LIMIT)
    target.read_tail()
    whole = fetched_from(first.source, 0)
    size = len(application_batch([content(b"0-0", b"v")], [NOW_MS]).encoded())
    target.copy.take_fetched(replace(whole, records=whole.records[: 2 * size]))
    assert target.copy.next_copy is None
    assert target.copy.wants_records(0.0, buffer_limit=1), "however little room there is"
    assert target.ranges() == []
    target.fetch()
    assert target.ranges() == [(0, 3, 0, 3, True)]


def test_a_merged_tail_is_read_behind_the_end_that_a_task_goes_to() -> None:
    first = merging_target(1, 1, 1, 1)
    first.copy_all()
    target = Target(first.source, assignment(end_offset=2), first.log, merges_up_to=LIMIT)
    target.read_tail()
    target.fetch()
    target.fetch()
    assert target.copy.target.has_reached_end
    assert target.ranges() == [(0, 4, 0, 4, True)]


def lost_end(*, then: int) -> tuple[Target, PartitionLog]:
    """Merged of more than the source has left, which went on with other records under another leader."""
    first = merging_target(1, 1, 1, 1, 1)
    first.copy_all()
    source = first.source
    source.lose_end(2)
    for number in range(then):
        source.append(application_batch([content(b"other-%d" % number, b"v")], [NOW_MS]), now_ms=NOW_MS)
    return Target(source, assignment(), first.log, merges_up_to=LIMIT), first.log


def test_a_source_that_shows_less_than_was_merged_is_waited_for_until_the_task_ends() -> None:
    """Right after a change of leader it may show less than it has."""
    target, _ = lost_end(then=0)
    target.copy_all()
    assert (target.stop, target.ranges()) == (None, [])
    target.copy.target.conclude()
    assert (target.stop, target.ranges()) == (StopCause.TAIL_MISMATCH, [])


def test_a_source_that_lost_the_end_of_what_was_merged_stops_the_partition() -> None:
    target, log = lost_end(then=4)
    target.copy_all()
    assert (target.stop, target.ranges()) == (StopCause.TAIL_MISMATCH, [])
    assert counts(log) == [5]


def test_a_source_whose_beginning_was_deleted_is_paired_with_the_rest_of_what_was_merged() -> None:
    first = merging_target(1, 1, 1, 1, 1)
    first.copy_all()
    target = Target(
        first.source, assignment(position=2, source_may_be_deleted=True), first.log, merges_up_to=LIMIT
    )
    target.copy_all()
    assert target.stop is None
    assert target.ranges() == [(2, 2, 0, 2, True), (2, 5, 2, 5, True)]
    assert counts(first.log) == [5]


def test_a_tail_of_others_records_is_not_waited_for() -> None:
    log = PartitionLog()
    own = application_batch(
        [content(b"else", b"v")] * 3, [NOW_MS] * 3, producer=Producer(OWN_PRODUCER_ID, 0, 0)
    )
    log.append(own, now_ms=NOW_MS)
    target = merging_target(1, 1, log=log)
    target.copy_all()
    assert target.stop is StopCause.TAIL_MISMATCH


def test_parts_are_as_many_as_make_up_the_records() -> None:
    steps = [copy(0, 1), copy(1, 3), copy(3, 4)]
    assert parts_of(steps, 3) == (steps[:2], False)
    assert parts_of(steps, 2) == (steps[:1], False)
    assert parts_of(steps, 5) == (steps, True)
    assert parts_of([*steps, copy(9, 10)], 5) == (steps, False)
    assert parts_of([replace(copy(0, 1), whole=False), *steps], 5) == ([], False)


def test_what_is_merged_says_of_which_batches() -> None:
    whole = as_one([copy(0, 1), copy(1, 3)])
    assert (whole.source_start, whole.source_end, whole.count, whole.ends, whole.raw) == (
        0,
        3,
        3,
        (1, 3),
        False,
    )
