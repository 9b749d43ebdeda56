"""The in-memory broker keeps the rules that were seen on real ones (B1 to B5)."""

from ledger.kafka.batches import TRANSACTIONAL
from tests.simulation.kafka.partition_log import PartitionLog, Replication
from tests.simulation.kafka.producer_states import PRODUCER_EXPIRATION_MS
from tests.simulation.kafka.stored_batches import Producer, StoredBatch, application_batch, content

NOW_MS = 1_700_000_000_000
DUPLICATE_OR_NEXT, OUT_OF_ORDER = 0, 45


def batch(
    sequence: int, count: int = 2, *, epoch: int = 0, attributes: int = 0, at_ms: int = NOW_MS
) -> StoredBatch:
    contents = [content(b"k", b"%d" % sequence)] * count
    producer = Producer(40, epoch, sequence)
    return application_batch(contents, [at_ms] * count, attributes=attributes, producer=producer)


def produce(log: PartitionLog, *args: int, **options: int) -> tuple[int, int]:
    appended = log.produce(batch(*args, **options).encoded(), now_ms=NOW_MS)
    return appended.error, appended.base_offset


def test_b3_after_a_restart_the_last_batch_is_known_only() -> None:
    log = PartitionLog()
    for n in range(5):
        produce(log, n * 2)
    log.restart(now_ms=NOW_MS)
    assert [produce(log, n * 2)[0] for n in range(5)] == [OUT_OF_ORDER] * 4 + [DUPLICATE_OR_NEXT]


def test_b3_old_batches_are_forgotten_by_their_own_time() -> None:
    log = PartitionLog()
    produce(log, 0, at_ms=NOW_MS - PRODUCER_EXPIRATION_MS - 1)
    log.restart(now_ms=NOW_MS)
    assert produce(log, 0) == (0, 2), "written twice"


def test_b4_open_transactions_and_replicas_hold_readers_back() -> None:
    log = PartitionLog()
    produce(log, 0)
    log.append(
        application_batch(
            [content(b"t", None)], [NOW_MS], attributes=TRANSACTIONAL, producer=Producer(5, 0, 0)
        ),
        now_ms=NOW_MS,
    )
    assert (log.last_stable, log.high_watermark) == (2, 3)
    assert [r.offset for r in log.readable()] == [0, 1]
    log.end_transaction(5, 0, commit=False, now_ms=NOW_MS)
    assert (log.last_stable, log.end) == (4, 4)
    assert log.read(2, committed=True, max_bytes=999, at_least_one=True).aborted == ((5, 2),)
    assert log.read(0, committed=True, max_bytes=10, at_least_one=True).aborted == ()
    log.hold()
    assert produce(log, 2)[0] == 20
    assert (log.high_watermark, log.end) == (4, 6)
    log.fail_over(keep_held=False)
    assert log.end == 4
    assert produce(log, 2) == (0, 4)
    log.replication = Replication.REFUSED
    assert produce(log, 4)[0] == 19
    assert produce(log, 2) == (0, 4)


def test_b4_a_transaction_is_open_until_its_marker_is_replicated() -> None:
    log = PartitionLog()
    log.append(
        application_batch(
            [content(b"t", None)], [NOW_MS], attributes=TRANSACTIONAL, producer=Producer(5, 0, 0)
        ),
        now_ms=NOW_MS,
    )
    log.hold()
    log.end_transaction(5, 0, commit=True, now_ms=NOW_MS)
    assert (log.last_stable, log.high_watermark) == (0, 1)
    log.fail_over(keep_held=True)
    assert log.last_stable == 2


def test_b5_the_first_batch_is_whole_and_the_last_may_be_cut() -> None:
    log = PartitionLog()
    produce(log, 0)
    produce(log, 2)
    size = len(batch(0).encoded())
    assert len(log.read(1, committed=True, max_bytes=1, at_least_one=True).records) == size
    assert len(log.read(1, committed=True, max_bytes=1, at_least_one=False).records) == 1
    assert len(log.read(0, committed=True, max_bytes=size + 9, at_least_one=True).records) == size + 9
    assert log.read(4, committed=True, max_bytes=9, at_least_one=True).records == b""
    assert log.read(5, committed=True, max_bytes=9, at_least_one=True).error == 1
    log.delete_before(3)
    assert log.read(2, committed=True, max_bytes=9, at_least_one=True).error == 1
    assert len(log.read(3, committed=True, max_bytes=999, at_least_one=True).records) == size


def test_the_cleaner_keeps_places_sequences_and_the_last_of_each_key() -> None:
    log = PartitionLog()
    for sequence in (0, 2, 4):
        produce(log, sequence)
    log.compact(6)
    assert [(r.offset, r.content) for r in log.readable()] == [(5, content(b"k", b"4"))]
    assert [(h.base_offset, h.last_offset_delta, h.count) for h in log.headers()] == [(4, 1, 1)]
    assert produce(log, 4) == (0, 4)


def diverging(log: PartitionLog, offset: int, last_epoch: int) -> tuple[int, int] | int | None:
    read = log.read(offset, committed=True, max_bytes=999, at_least_one=True, last_epoch=last_epoch)
    if read.error or read.diverging is None:
        return read.error or None
    return read.diverging.epoch, read.diverging.end


def test_b6_a_reader_is_told_where_the_epoch_that_it_read_ends() -> None:
    log = PartitionLog()
    produce(log, 0)
    log.fail_over(keep_held=True)
    produce(log, 2)
    log.fail_over(keep_held=True)
    log.fail_over(keep_held=True)
    assert log.leader_epoch == 3
    assert [header.leader_epoch for header in log.headers()] == [0, 1]
    assert diverging(log, 4, 1) is None, "the end of epoch 1 is the end of the log"
    assert diverging(log, 2, 0) is None, "a clean election takes nothing back"
    assert diverging(log, 3, 0) == (0, 2), "nothing of epoch 0 lies at offset 2"
    assert diverging(log, 4, 2) == (1, 4), "nothing was written in epoch 2"
    assert diverging(log, 4, 4) == 1, "an epoch to come"


def test_b7_an_unclean_leader_has_lost_an_end_and_reuses_its_offsets() -> None:
    log = PartitionLog()
    for sequence in (0, 2, 4):
        produce(log, sequence)
    log.lose_end(5)
    assert (log.end, log.leader_epoch) == (4, 1)
    assert diverging(log, 6, 0) == (0, 4), "also beyond the new end"
    produce(log, 4, 3)
    assert diverging(log, 6, 0) == (0, 4)
    assert diverging(log, 4, 0) is None
    assert produce(log, 2) == (0, 2), "what is still there is remembered"


def test_b7_a_transaction_that_lost_its_marker_is_open_again() -> None:
    log = PartitionLog()
    for _ in range(2):
        first = log.append(
            application_batch(
                [content(b"t", None)], [NOW_MS], attributes=TRANSACTIONAL, producer=Producer(5, 0, 0)
            ),
            now_ms=NOW_MS,
        )
        log.end_transaction(5, 0, commit=False, now_ms=NOW_MS)
    log.lose_end(first - 1)
    assert (log.end, log.last_stable) == (1, 0)


def test_the_log_start_moves_the_beginning_of_its_epoch() -> None:
    log = PartitionLog()
    produce(log, 0)
    log.fail_over(keep_held=True)
    produce(log, 2)
    log.delete_before(3)
    assert diverging(log, 3, 0) is None, "all of epoch 0 is gone: it ends where the next one begins now"
    assert diverging(log, 4, 0) == (0, 3)
    assert diverging(log, 2, 1) == 1, "deleted is out of range, not diverging"
    assert diverging(log, 4, 1) is None
    log.delete_before(4)
    log.fail_over(keep_held=True)
    assert (diverging(log, 4, 1), diverging(log, 5, 1)) == (None, (1, 4))


def test_what_is_known_of_a_cleaned_batch_is_what_was_written() -> None:
    log = PartitionLog()
    produce(log, 0, 3)
    log.compact(3)
    log.fail_over(keep_held=True)
    log.lose_end(3)
    assert produce(log, 1)[0] == OUT_OF_ORDER
    assert produce(log, 3) == (0, 3)
