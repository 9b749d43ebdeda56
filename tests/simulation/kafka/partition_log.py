"""One partition of an in-memory cluster: a log of real record batches, with a broker's rules.

Rules, by name (each was seen on a real broker)
    B1  a batch is taken only when its CRC is right, it is dense and below the size limit, and neither a marker
        nor of a transaction; one that says LogAppendTime is refused where the topic stamps its own time, else
        the broker takes that word away
    B2  idempotence by producer id and epoch: one of the last five batches again is answered with its
        offset, another sequence than the next one is refused; without state any sequence is taken
    B3  a restart keeps the last batch of a producer only, and nothing of one whose batches are old
    B4  readers see up to the high watermark; committed readers up to the first open transaction
    B5  a read begins with the whole batch that holds the offset, and may end with a cut-off one
    B6  every new leader begins an epoch; a reader that names the epoch of the last batch it read is told
        where that epoch ends when it has read past there
    B7  an unclean leader has lost an end of the log, markers and what it knew of producers there included
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import crc32c

from ledger.kafka.batches import (
    CRC_START,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    crc_matches,
    decode,
    read_header,
)
from ledger.kafka.requests import ErrorCode
from tests.simulation.kafka.leader_epochs import EpochEnd, LeaderEpochs
from tests.simulation.kafka.producer_states import ProducerStates
from tests.simulation.kafka.stored_batches import (
    Producer,
    StoredBatch,
    StoredRecord,
    is_tombstone,
    key_of,
    marker,
)

CORRUPT_MESSAGE = 2
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
DEFAULT_MAX_MESSAGE_BYTES = 1 << 20
DELETE_RETENTION_MS = 86_400_000
_PLACE = struct.Struct(">qii")


class Replication(Enum):
    """What becomes of a produced batch."""

    FULL = auto()
    REFUSED = auto()  # not enough replicas: nothing is appended
    NO_ROOM = auto()  # the leader's disk is full: nothing is appended
    HELD = auto()  # appended, but the replicas do not follow: neither acknowledged nor readable


_REFUSALS = {
    Replication.REFUSED: NOT_ENOUGH_REPLICAS,
    Replication.NO_ROOM: int(ErrorCode.KAFKA_STORAGE_ERROR),
}


class Garbling(Enum):
    """What readers get of a batch whose stored bytes are bad."""

    MAGIC = auto()  # as if it were of an older format
    LENGTH = auto()  # less than a header has
    CONTENT = auto()  # other bytes than those that the CRC was computed over


@dataclass(frozen=True, slots=True)
class Appended:
    """A broker's answer to one produced batch."""

    error: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Read:
    """A broker's answer to a read of one partition; `diverging`: the end of what the reader had read."""

    error: int
    records: bytes = b""
    aborted: tuple[tuple[int, int], ...] = ()
    diverging: EpochEnd | None = None


@dataclass(frozen=True, slots=True)
class _Transaction:
    """An ended transaction: its first record, its marker, and how it ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True)
class PartitionLog:
    """`target_codec`: the topic recompresses what it takes; None keeps the producer's bytes.

    `latest_ms`: a batch with a record of later is refused, None: any time is taken. `garbling`: what the disk does to
    what is read at present.
    """

    log_append_time: bool = False
    target_codec: int | None = None
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    log_start: int = 0
    refuses_keyless: bool = False
    latest_ms: int | None = None
    replication: Replication = Replication.FULL
    garbling: Garbling | None = None
    _batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    _written: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    _end: int = 0
    _held_at: int = 0
    _producers: ProducerStates = field(default_factory=ProducerStates)
    _epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    _last_epoch: int = 0
    truncated_to: int | None = None
    restored_to: int | None = None
    truncations: int = 0
    _open: dict[int, int] = field(default_factory=dict)
    _ended: list[_Transaction] = field(default_factory=list)

    # -- ends ------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        return self._end

    @property
    def leader_epoch(self) -> int:
        return self._epochs.latest

    @property
    def high_watermark(self) -> int:
        return self._held_at if self.replication is Replication.HELD else self._end

    @property
    def last_stable(self) -> int:
        if self.replication is Replication.HELD:
            # An ended transaction counts as open until its marker is replicated.
            ended = (t.first_offset for t in self._ended if t.last_offset >= self._held_at)
            return min([self._held_at, *self._open.values(), *ended])
        return min([self._end, *self._open.values()])

    def expected_sequence(self, producer_id: int) -> int | None:
        """What is expected next of a producer; None where it is forgotten."""
        return self._producers.next_of(producer_id)

    def last_timestamp(self, producer_id: int) -> int | None:
        """Of the last batch that is remembered of a producer; None where it is forgotten."""
        last = self._producers.last_of(producer_id)
        return None if last is None else last.max_timestamp

    def producer_epoch(self, producer_id: int) -> int | None:
        return self._producers.epoch_of(producer_id)

    def has_open_transaction(self, producer_id: int) -> bool:
        return producer_id in self._open

    # -- writing ---------------------------------------------------------------------------------

    def produce(self, batch: bytes, *, now_ms: int) -> Appended:
        """Take a batch as a broker takes a Produce request with acks=all."""
        header = read_header(memoryview(batch))
        error = self._validation_error(header, batch)
        if error:
            return Appended(error, -1)
        known = self._producers.duplicate_of(header)
        if known is not None:
            return self._acknowledged(known.base_offset, header.count)
        if not self._producers.is_next(header):
            return Appended(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        if self.replication in _REFUSALS:
            return Appended(_REFUSALS[self.replication], -1)
        return self._acknowledged(self._append(self._recompressed(header, batch), now_ms), header.count)

    def _validation_error(self, header: BatchHeader, batch: bytes) -> int:
        """B1, and what keeps a mirror from writing: transactions it does not have, a later epoch."""
        broken_rules = (
            (CORRUPT_MESSAGE, not crc_matches(header, memoryview(batch))),
            (ErrorCode.MESSAGE_TOO_LARGE, len(batch) > self.max_message_bytes),
            (ErrorCode.INVALID_RECORD, not header.is_dense or header.count == 0 or header.is_control),
            (ErrorCode.INVALID_RECORD, self.refuses_keyless and _has_keyless(header, batch)),
            (ErrorCode.INVALID_TIMESTAMP, self.log_append_time and header.has_log_append_time),
            (
                ErrorCode.INVALID_TIMESTAMP,
                self.latest_ms is not None and header.max_timestamp > self.latest_ms,
            ),
            (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, header.is_transactional),
            (ErrorCode.INVALID_PRODUCER_EPOCH, self._producers.has_later_epoch(header)),
        )
        return next((int(code) for code, broken in broken_rules if broken), 0)

    def _acknowledged(self, base_offset: int, count: int) -> Appended:
        if base_offset + count > self.high_watermark:
            return Appended(NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1)
        return Appended(0, base_offset)

    def _recompressed(self, header: BatchHeader, batch: bytes) -> bytes:
        if self.target_codec is None or self.target_codec == header.codec:
            return batch
        return _rewritten(header, decode(header, memoryview(batch)), codec=self.target_codec).encoded()

    def append(self, batch: StoredBatch, *, now_ms: int) -> int:
        """Append what an application or a coordinator wrote; returns the base offset."""
        base_offset = self._append(batch.encoded(), now_ms)
        if batch.attributes & TRANSACTIONAL:
            self._open.setdefault(batch.producer.producer_id, base_offset)
        return base_offset

    def end_transaction(self, producer_id: int, epoch: int, *, commit: bool, now_ms: int) -> None:
        """Append the marker; an abort is listed for committed readers, and a later epoch shuts out an earlier."""
        written = marker(producer_id, epoch, timestamp=now_ms, commit=commit)
        offset = self._append(written.encoded(), now_ms)
        first = self._open.pop(producer_id, None)
        if first is not None:
            self._ended.append(_Transaction(producer_id, first, offset, not commit))

    def open_transactions(self) -> list[int]:
        """Producer ids that have not ended theirs."""
        return sorted(self._open)

    def _append(self, batch: bytes, now_ms: int) -> int:
        stored = bytearray(batch)
        length = len(stored) - 12
        _PLACE.pack_into(stored, 0, self._end, length, self.leader_epoch)
        header = read_header(memoryview(stored))
        if self.log_append_time and not header.is_control:
            header = _stamp(stored, header, now_ms)
        elif header.has_log_append_time:
            header = _with_attributes(stored, header.attributes & ~LOG_APPEND_TIME)
        self._producers.remember(header)
        self._batches.append((header, bytes(stored)))
        self._written.append(self._batches[-1])
        self._end = header.end_offset
        return header.base_offset

    # -- reading ---------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        committed: bool,
        max_bytes: int,
        at_least_one: bool,
        last_epoch: int | None = None,
        behind: int = 0,
    ) -> Read:
        """B4, B5, B6. `at_least_one`: the first batch is returned whatever its size; `behind`: of a replica that lacks
        so many of the last records."""
        if last_epoch is not None:
            known = self._epochs.end_of(last_epoch, log_end=self._end)
            if known is None or offset < self.log_start:
                return Read(ErrorCode.OFFSET_OUT_OF_RANGE)
            if known.epoch < last_epoch or known.end < offset:
                return Read(0, diverging=known)
        if not self.log_start <= offset <= self._end - behind:
            return Read(ErrorCode.OFFSET_OUT_OF_RANGE)
        limit = min(self.last_stable if committed else self.high_watermark, self.high_watermark - behind)
        records, read_end = bytearray(), offset
        for header, batch in self._from(offset, limit):
            room = max_bytes - len(records)
            if len(batch) > room and (records or not at_least_one):
                records += batch[: max(room, 0)]
                break
            records += batch
            read_end = header.end_offset
        if records and self.garbling is not None:
            _garble(records, self.garbling)
        return Read(0, bytes(records), self._aborted_between(offset, read_end) if committed else ())

    def _from(self, offset: int, limit: int) -> Iterator[tuple[BatchHeader, bytes]]:
        first = bisect_right(self._batches, offset, key=lambda entry: entry[0].end_offset)
        for index in range(first, len(self._batches)):
            if self._batches[index][0].base_offset >= limit:
                return
            yield self._batches[index]

    def _aborted_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        return tuple(
            (entry.producer_id, entry.first_offset)
            for entry in self._ended
            if entry.is_aborted and entry.last_offset >= start and entry.first_offset < end
        )

    def readable(self) -> list[Record]:
        """What a committed reader from the log start sees, by looking at whole transactions."""
        return [record for record in self._committed_records() if record.offset >= self.log_start]

    def _committed_records(self) -> Iterator[Record]:
        for header, batch in self._batches:
            if self.committed(header):
                yield from decode(header, memoryview(batch))

    def _is_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            entry.is_aborted
            and entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in self._ended
        )

    def written(self) -> list[tuple[BatchHeader, bytes]]:
        """Every batch as it was appended and not truncated, also those deleted or cleaned since."""
        return list(self._written)

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """All batches in the log, as they are now."""
        return list(self._batches)

    def committed(self, header: BatchHeader) -> bool:
        """Whether committed readers are, or were, shown the batch."""
        is_data = header.count > 0 and not header.is_control
        return is_data and header.base_offset < self.last_stable and not self._is_aborted(header)

    def headers(self) -> list[BatchHeader]:
        """Headers of all batches in the log."""
        return [header for header, _batch in self._batches]

    # -- what happens to a log -------------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Retention or DeleteRecords: move the log start; whole batches below it go."""
        self.log_start = max(self.log_start, min(offset, self.high_watermark))
        self._batches = [entry for entry in self._batches if entry[0].end_offset > self.log_start]
        self._epochs.delete_before(self.log_start)

    def compact(self, up_to: int, *, now_ms: int | None = None) -> None:
        """Keep the last record of each key below `up_to`; aborted records go, emptied batches too.

        Batches with tombstones are told until when they are kept, if it is known what time it is (KIP-534).
        """
        horizon = None if now_ms is None else now_ms + DELETE_RETENTION_MS
        limit = min(up_to, self.last_stable)
        below = [record for record in self._committed_records() if record.offset < limit]
        latest = {key_of(record.content): record.offset for record in below}
        kept = {offset for key, offset in latest.items() if key is not None}
        cleaned = (self._cleaned(header, batch, kept, limit, horizon) for header, batch in self._batches)
        self._batches = [entry for entry in cleaned if entry is not None]

    def _cleaned(
        self, header: BatchHeader, batch: bytes, kept: set[int], limit: int, horizon: int | None
    ) -> tuple[BatchHeader, bytes] | None:
        if header.is_control or header.count == 0 or header.end_offset > limit:
            return header, batch
        records = [record for record in decode(header, memoryview(batch)) if record.offset in kept]
        if header.has_delete_horizon or not any(is_tombstone(record.content) for record in records):
            horizon = None
        if len(records) == header.count and horizon is None:
            return header, batch
        # The cleaner keeps the last batch of a producer, empty if need be, for its sequence.
        if not records and not self._producers.is_last(header):
            return None
        rewritten = _rewritten(header, records, codec=header.codec, horizon=horizon).encoded()
        return read_header(memoryview(rewritten)), rewritten

    def expire_producers(self, *, now_ms: int) -> None:
        """B3, by the periodic check."""
        self._producers.expire(now_ms=now_ms)

    def restart(self, *, now_ms: int) -> None:
        """B3."""
        self._producers.restart(now_ms=now_ms)

    def fail_over(self, *, keep_held: bool) -> None:
        """A new leader: what the replicas had not taken is there or lost; producer state follows the log."""
        if self.replication is Replication.HELD and not keep_held:
            self._truncate(self._held_at)
        self._begin_epoch()

    def lose_end(self, end: int) -> None:
        """B7: the new leader has nothing from `end` on, nor of the batch that `end` lies in."""
        whole = [header.end_offset for header, _batch in self._batches if header.end_offset <= end]
        self._truncate(max([self.log_start, *whole]))
        self._begin_epoch()

    def restore(self, end: int, epoch: int) -> None:
        """Its folder is that of a copy, which ended there: it writes on under that epoch, for the second time."""
        self.restored_to = end if self.restored_to is None else min(end, self.restored_to)
        self._truncate(end)
        self._last_epoch = epoch - 1
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._last_epoch += 1
        self._epochs.begin(self._last_epoch, self._end)
        self.replication = Replication.FULL

    def hold(self) -> None:
        """From now on the replicas do not follow."""
        if self.replication is not Replication.HELD:
            self._held_at = self._end
            self.replication = Replication.HELD

    def _truncate(self, end: int) -> None:
        """Cut the log at a batch boundary; a transaction whose marker is gone is open again."""
        self.truncated_to = end if self.truncated_to is None else min(end, self.truncated_to)
        self.truncations += 1
        self._batches = [entry for entry in self._batches if entry[0].end_offset <= end]
        self._written = [entry for entry in self._written if entry[0].end_offset <= end]
        self._end = end
        reopened = {t.producer_id: t.first_offset for t in reversed(self._ended) if t.last_offset >= end}
        self._open = {pid: first for pid, first in (self._open | reopened).items() if first < end}
        self._ended = [t for t in self._ended if t.last_offset < end]
        self._producers = ProducerStates(header for header, _batch in self._batches)


def _has_keyless(header: BatchHeader, batch: bytes) -> bool:
    return any(key_of(record.content) is None for record in decode(header, memoryview(batch)))


def _garble(records: bytearray, garbling: Garbling) -> None:
    """Spoil the first batch of what is read."""
    match garbling:
        case Garbling.MAGIC:
            records[16] = 1
        case Garbling.LENGTH:
            struct.pack_into(">i", records, 8, 7)
        case Garbling.CONTENT:
            records[CRC_START + 10] ^= 0xFF


def _stamp(stored: bytearray, header: BatchHeader, now_ms: int) -> BatchHeader:
    """LogAppendTime: the broker's time for the whole batch; base timestamp and records stay."""
    struct.pack_into(">q", stored, 35, now_ms)
    return _with_attributes(stored, header.attributes | LOG_APPEND_TIME)


def _with_attributes(stored: bytearray, attributes: int) -> BatchHeader:
    struct.pack_into(">h", stored, CRC_START, attributes)
    struct.pack_into(">I", stored, CRC_START - 4, crc32c.crc32c(memoryview(stored)[CRC_START:]))
    return read_header(memoryview(stored))


def _rewritten(
    header: BatchHeader, records: Sequence[Record], *, codec: int, horizon: int | None = None
) -> StoredBatch:
    """The batch with these records and the same place, producer and last offset.

    `horizon`: until when its tombstones are kept; stands where the base timestamp was.
    """
    attributes = header.attributes & ~header.codec | codec
    stored = tuple(
        StoredRecord(record.offset - header.base_offset, record.timestamp, record.content)
        for record in records
    )
    batch = StoredBatch(
        records=stored,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if horizon is None else horizon,
        max_timestamp=header.max_timestamp,
        attributes=attributes if horizon is None else attributes | DELETE_HORIZON,
        producer=Producer(header.producer_id, header.producer_epoch, header.base_sequence),
    )
    return replace(batch, base_offset=header.base_offset, leader_epoch=header.leader_epoch)
