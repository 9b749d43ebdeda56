"""Record batches, version 2: the 61-byte header, and what may be patched in it.

Layout and attribute bits: Kafka's `DefaultRecordBatch`. The CRC-32C covers byte 21 to the end; base
offset, length and leader epoch stand before it. Bytes from 61 on are never changed by a raw copy.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import crc32c

from ledger.domain.facts import SEQUENCE_MODULUS
from ledger.errors import ProtocolError

HEADER_BYTES = 61
CRC_START = 21
MAGIC = 2
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_LEADER_EPOCH_AND_MAGIC = struct.Struct(">ib")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_LENGTH_PREFIX_BYTES = 12
_PRODUCER_START = 43
_COPIED_ATTRIBUTES = CODEC_MASK


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fields of one batch header, and `size`, the bytes of the whole batch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        return self.length + _LENGTH_PREFIX_BYTES

    @property
    def end_offset(self) -> int:
        """The offset after the last one that the batch covers, records there or not."""
        return self.base_offset + self.last_offset_delta + 1

    def sequence_at(self, offset: int) -> int:
        """The producer's sequence of the record at an offset that the batch covers."""
        return next_sequence(self.base_sequence, offset - self.base_offset)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        """A cleaner left tombstones in it: its base timestamp is the time up to which they are kept (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_dense(self) -> bool:
        """Every covered offset has its record: the batch was never cleaned."""
        return self.count == self.last_offset_delta + 1


def read_header(batch: memoryview) -> BatchHeader:
    """Parse the header of the batch that starts at byte 0. Raises `ProtocolError` for another magic."""
    header = BatchHeader(*_HEADER.unpack_from(batch))
    if header.magic != MAGIC:
        raise ProtocolError(
            f"a record batch must have magic {MAGIC}, got {header.magic} at offset {header.base_offset}; "
            "it was not copied"
        )
    return header


def batches(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Whole batches of a fetched record set, in order; a cut-off one at the end is left out."""
    position, end = 0, len(records)
    while end - position >= HEADER_BYTES:
        size = _LENGTH.unpack_from(records, position)[1] + _LENGTH_PREFIX_BYTES
        if size < HEADER_BYTES:
            raise ProtocolError(
                f"a record batch has at least {HEADER_BYTES} bytes, got {size}; nothing was copied"
            )
        if position + size > end:
            return
        batch = records[position : position + size]
        yield read_header(batch), batch
        position += size


def crc_matches(header: BatchHeader, batch: memoryview) -> bool:
    """Whether the batch's bytes are those that its CRC was computed over."""
    return bool(crc32c.crc32c(batch[CRC_START:]) == header.crc)


def patch_for_target(batch: memoryview, attributes: int, *, producer_id: int, sequence: int) -> None:
    """Make the batch the mirror's own, in place: base offset 0, producer id, epoch 0, sequence, new CRC.

    Of the attributes only the codec stays: the transactional bit would need a transaction at the
    target, and timestamp type and delete horizon belong to the source's log.
    """
    _LENGTH.pack_into(batch, 0, 0, len(batch) - _LENGTH_PREFIX_BYTES)
    _LEADER_EPOCH_AND_MAGIC.pack_into(batch, _LENGTH_PREFIX_BYTES, -1, MAGIC)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes & _COPIED_ATTRIBUTES)
    _PRODUCER.pack_into(batch, _PRODUCER_START, producer_id, 0, sequence)
    _CRC.pack_into(batch, CRC_START - 4, crc32c.crc32c(batch[CRC_START:]))


def build(
    *, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytearray:
    """A dense batch of `count` records around an encoded (and compressed) payload, not yet patched."""
    out = bytearray(HEADER_BYTES + len(payload))
    length = len(out) - _LENGTH_PREFIX_BYTES
    _HEADER.pack_into(
        out,
        0,
        0,
        length,
        -1,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        -1,
        -1,
        -1,
        count,
    )
    out[HEADER_BYTES:] = payload
    _CRC.pack_into(out, CRC_START - 4, crc32c.crc32c(memoryview(out)[CRC_START:]))
    return out


def payload_checksum(batch: memoryview, previous: int) -> int:
    """CRC-32C over byte 61 on, chained onto the checksum of the batches before."""
    return int(crc32c.crc32c(batch[HEADER_BYTES:], previous))


def next_sequence(sequence: int, count: int) -> int:
    """The producer sequence `count` records later; wraps as Kafka's `incrementSequence` does."""
    return (sequence + count) % SEQUENCE_MODULUS
