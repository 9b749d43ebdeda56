"""Record batches as applications, coordinators and the log cleaner write them, offset by offset.

Written from Kafka's `DefaultRecordBatch` and `DefaultRecord` on their own, so that what the mirror reads
and patches is checked against a second implementation.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import crc32c

from ledger.kafka import batches, codecs
from ledger.kafka.batches import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL

NO_PRODUCER = -1
_HEAD = struct.Struct(">qiibI")
_BODY = struct.Struct(">hiqqqhii")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_MAGIC = 2
_ABORT, _COMMIT = 0, 1

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes a batch; without an id there is no sequence either."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    sequence: int = -1


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record of a stored batch; `content` is key, value and headers as encoded."""

    offset_delta: int
    timestamp: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch as it lies in a log; offsets between its records may be missing."""

    records: tuple[StoredRecord, ...]
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    attributes: int = 0
    producer: Producer = Producer()
    base_offset: int = 0
    leader_epoch: int = 0

    def encoded(self) -> bytes:
        payload = b"".join(self._record(record) for record in self.records)
        payload = codecs.compress(self.attributes & CODEC_MASK, payload) if payload else b""
        body = self._body() + payload
        length = len(body) + _HEAD.size - 12
        crc = crc32c.crc32c(body)
        return _HEAD.pack(self.base_offset, length, self.leader_epoch, _MAGIC, crc) + body

    def _body(self) -> bytes:
        return _BODY.pack(
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer.producer_id,
            self.producer.epoch,
            self.producer.sequence,
            len(self.records),
        )

    def _record(self, record: StoredRecord) -> bytes:
        delta = 0 if self.attributes & LOG_APPEND_TIME else record.timestamp - self.base_timestamp
        body = b"\x00" + batches.signed(delta) + batches.signed(record.offset_delta) + record.content
        return batches.signed(len(body)) + body


def content(key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    """Key, value and headers as a record carries them."""
    parts = [_nullable(key), _nullable(value), batches.signed(len(headers))]
    parts += [_nullable(name.encode()) + _nullable(data) for name, data in headers]
    return b"".join(parts)


def key_of(encoded: bytes) -> bytes | None:
    """The key inside `content`."""
    size, start = batches.read_signed(encoded, 0)
    return None if size < 0 else encoded[start : start + size]


def is_tombstone(encoded: bytes) -> bool:
    """Whether `content` has a key and no value."""
    key = key_of(encoded)
    size, start = batches.read_signed(encoded, 0)
    return key is not None and batches.read_signed(encoded, start + size)[0] < 0


def application_batch(
    contents: Sequence[bytes],
    timestamps: Sequence[int],
    *,
    attributes: int = 0,
    producer: Producer = Producer(),
) -> StoredBatch:
    """A dense batch; the base timestamp is the first record's, so later deltas may be negative."""
    records = tuple(
        StoredRecord(delta, timestamp, data)
        for delta, (timestamp, data) in enumerate(zip(timestamps, contents, strict=True))
    )
    return StoredBatch(
        records=records,
        last_offset_delta=len(records) - 1,
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        attributes=attributes,
        producer=producer,
    )


def marker(producer_id: int, epoch: int, *, timestamp: int, commit: bool) -> StoredBatch:
    """The control batch that ends a transaction."""
    key = _MARKER_KEY.pack(0, _COMMIT if commit else _ABORT)
    batch = application_batch([content(key, _MARKER_VALUE.pack(0, 0))], [timestamp])
    return replace(batch, attributes=CONTROL | TRANSACTIONAL, producer=Producer(producer_id, epoch))


def _nullable(data: bytes | None) -> bytes:
    return batches.signed(-1) if data is None else batches.signed(len(data)) + data
