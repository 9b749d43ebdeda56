"""Record batches, version 2: the 61-byte header, and what may be patched in it; messages before it, as such batches.

Layout and attribute bits: Kafka's `DefaultRecordBatch`. The CRC-32C covers byte 21 to the end; base
offset, length and leader epoch stand before it. Bytes from 61 on are never changed by a raw copy.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import crc32c

from ledger.errors import ProtocolError, UnpackedSizeError
from ledger.facts.syncs import SEQUENCE_MODULUS
from ledger.kafka.codecs import compress, decompress

Buffer = bytes | bytearray | memoryview

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
_TIMES_AND_COUNT = struct.Struct(">27xqq14xi")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
LENGTH_PREFIX_BYTES = 12
"""Of a batch before what its length counts."""
_MAGIC_AT = 16
_OF_MESSAGE = {0: struct.Struct(">qiIbb"), 1: struct.Struct(">qiIbbq")}
"""Of a message before its key: offset, length, CRC-32, magic, attributes, and since version 1 a time."""
_INT = struct.Struct(">i")
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
        return self.length + LENGTH_PREFIX_BYTES

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


WholeBatch = tuple[BatchHeader, memoryview]


def read_header(batch: memoryview) -> BatchHeader:
    """Parse the header of the batch that starts at byte 0. Raises `ProtocolError` for another magic."""
    header = BatchHeader(*_HEADER.unpack_from(batch))
    if header.magic != MAGIC:
        raise ProtocolError(
            f"a record batch must have magic {MAGIC}, got {header.magic} at offset {header.base_offset}; "
            "it was not copied"
        )
    return header


def batches(records: memoryview) -> Iterator[WholeBatch]:
    """Whole batches of a fetched record set, in order, as `batch_at` has each of them."""
    position = 0
    while (found := batch_at(records, position)) is not None:
        header, batch, position = found
        yield header, batch


def batch_at(records: memoryview, position: int) -> tuple[BatchHeader, memoryview, int] | None:
    """The batch that begins there in a fetched record set, and where it ends; None at the end or where it is cut off.

    A message of version 0 or 1, which brokers before 0.11 wrote, is a batch of its own: what its header has of `magic`
    says that these are not the bytes that lie in the log.
    """
    if len(records) - position < _MAGIC_AT + 1:
        return None
    size = _LENGTH.unpack_from(records, position)[1] + LENGTH_PREFIX_BYTES
    magic = records[position + _MAGIC_AT]
    least = _OF_MESSAGE[magic].size if magic in _OF_MESSAGE else HEADER_BYTES
    if size < least:
        raise ProtocolError(f"a record batch has at least {least} bytes, got {size}; nothing was copied")
    end = position + size
    if end > len(records):
        return None
    batch = records[position:end]
    header, batch = _batch_of_message(batch) if magic in _OF_MESSAGE else (read_header(batch), batch)
    return header, batch, end


def fields_at(records: memoryview, position: int) -> tuple[int, ...]:
    """Of the header that begins there, in the order of `BatchHeader`, whatever they say; none where it is cut off."""
    return _HEADER.unpack_from(records, position) if len(records) - position >= HEADER_BYTES else ()


def times_and_count(batch: Buffer) -> tuple[int, int, int]:
    """Base and largest timestamp of a batch, and how many records it says that it has."""
    return _TIMES_AND_COUNT.unpack_from(batch)


def crc_matches(header: BatchHeader, batch: memoryview) -> bool:
    """Whether the batch's bytes are those that its CRC was computed over."""
    return crc_of(batch) == header.crc


def crc_of(batch: Buffer) -> int:
    """The CRC that the header of a batch has where it is whole."""
    return int(crc32c.crc32c(memoryview(batch)[CRC_START:]))


def patch_for_target(batch: memoryview, attributes: int, *, producer_id: int, sequence: int) -> None:
    """Make the batch the mirror's own, in place: base offset 0, producer id, epoch 0, sequence, new CRC.

    Of the attributes only the codec stays: the transactional bit would need a transaction at the
    target, and timestamp type and delete horizon belong to the source's log.
    """
    _LENGTH.pack_into(batch, 0, 0, len(batch) - LENGTH_PREFIX_BYTES)
    _LEADER_EPOCH_AND_MAGIC.pack_into(batch, LENGTH_PREFIX_BYTES, -1, MAGIC)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes & _COPIED_ATTRIBUTES)
    _PRODUCER.pack_into(batch, _PRODUCER_START, producer_id, 0, sequence)
    _CRC.pack_into(batch, CRC_START - 4, crc_of(batch))


def build(
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    payload: bytes,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A batch of `count` records around an encoded (and compressed) payload, not yet patched; dense by default."""
    out = bytearray(HEADER_BYTES + len(payload))
    length = len(out) - LENGTH_PREFIX_BYTES
    _HEADER.pack_into(
        out,
        0,
        base_offset,
        length,
        -1,
        MAGIC,
        0,
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        -1,
        -1,
        -1,
        count,
    )
    out[HEADER_BYTES:] = payload
    _CRC.pack_into(out, CRC_START - 4, crc_of(out))
    return out


def payload_checksum(batch: memoryview, previous: int) -> int:
    """CRC-32C over byte 61 on, chained onto the checksum of the batches before."""
    return int(crc32c.crc32c(batch[HEADER_BYTES:], previous))


def next_sequence(sequence: int, count: int) -> int:
    """The producer sequence `count` records later; wraps as Kafka's `incrementSequence` does."""
    return (sequence + count) % SEQUENCE_MODULUS


# Varint -------------------------------------------------------------------------------------------
# Variable-length integers of the Kafka protocol: plain (unsigned) and zig-zag.


def read_unsigned(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (value, position after it)."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
        if shift > 63:
            raise ProtocolError(
                f"a varint has at most 10 bytes, got more at byte {position}; nothing was decoded"
            )


def read_signed(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (zig-zag decoded value, position after it)."""
    value, position = read_unsigned(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def unsigned(value: int) -> bytes:
    """Encode a value that is not negative."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """Encode zig-zag; values are those of a signed 64-bit integer."""
    return unsigned(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)


# Records ------------------------------------------------------------------------------------------
# Records inside a batch: the record path, for batches that must not be copied as they are.
#
# A record is: length, attributes, timestamp delta, offset delta, then key, value and headers, which this
# module keeps as one run of bytes (`content`) and never decodes. Source: Kafka's `DefaultRecord`.


class Record(NamedTuple):
    """One record with its place in the log; `content` is key, value and headers as encoded."""

    offset: int
    timestamp: int
    attributes: int
    content: bytes


def unpacked(header: BatchHeader, batch: memoryview) -> bytes:
    """The records as one run of bytes. Raises `UnpackedSizeError` where they are too many, else `ProtocolError`."""
    try:
        return decompress(header.codec, bytes(batch[HEADER_BYTES:]))
    except UnpackedSizeError as error:
        where = f"the batch at offset {header.base_offset}, of {header.size:,} B"
        raise UnpackedSizeError(f"{where}, {error}; behind it lies offset {header.end_offset}") from None


def decode(header: BatchHeader, batch: memoryview) -> list[Record]:
    """The batch's records, timestamps as a consumer sees them. Raises `ProtocolError` when they do not add up."""
    payload = unpacked(header, batch)
    with adding_up(header):
        records = list(_decode_payload(header, payload))
    require_count(header, len(records))
    return records


def first_timestamp(header: BatchHeader, batch: memoryview) -> int:
    """Of the first record, as a consumer sees it. Raises `ProtocolError` when there is none that adds up."""
    payload = unpacked(header, batch)
    with adding_up(header):
        for record in _decode_payload(header, payload):
            return record.timestamp
        raise IndexError


@contextmanager
def adding_up(header: BatchHeader) -> Iterator[None]:
    """What ends too early is a `ProtocolError` of the batch."""
    try:
        yield
    except IndexError as error:
        raise ProtocolError(
            f"the records at offset {header.base_offset} end too early; they were not copied"
        ) from error


def require_count(header: BatchHeader, found: int) -> None:
    """Raise `ProtocolError` unless so many records are what the header says."""
    if found != header.count:
        raise ProtocolError(
            f"the batch at offset {header.base_offset} must hold {header.count} records, found {found}; "
            "it was not copied"
        )


def _decode_payload(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    position = 0
    while position < len(payload):
        size, position = read_signed(payload, position)
        end = position + size
        if size < 0 or end > len(payload):
            raise IndexError
        attributes = payload[position]
        timestamp_delta, position = read_signed(payload, position + 1)
        offset_delta, position = read_signed(payload, position)
        timestamp = (
            header.max_timestamp if header.has_log_append_time else header.base_timestamp + timestamp_delta
        )
        yield Record(header.base_offset + offset_delta, timestamp, attributes, payload[position:end])
        position = end


def encode(records: list[Record], *, codec: int, with_offsets: bool = False) -> bytearray:
    """An unpatched batch of the records, in order: dense, whatever their offsets were, unless it is `with_offsets`."""
    base_timestamp, base_offset = records[0].timestamp, records[0].offset if with_offsets else 0
    payload = bytearray()
    for number, record in enumerate(records):
        delta = record.offset - base_offset if with_offsets else number
        body = b"".join(
            (
                bytes((record.attributes,)),
                signed(record.timestamp - base_timestamp),
                signed(delta),
                record.content,
            )
        )
        payload += signed(len(body))
        payload += body
    return build(
        attributes=codec,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        count=len(records),
        payload=compress(codec, bytes(payload)),
        base_offset=base_offset,
        last_offset_delta=records[-1].offset - base_offset if with_offsets else None,
    )


# Messages -----------------------------------------------------------------------------------------
# Versions 0 and 1 of what is in a log (Kafka up to 0.10). A compressed message holds others as its value.
#
# Source: Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch`.


_NO_TIME, _NULL_LENGTH, _NO_HEADERS = -1, -1, signed(0)


@dataclass(frozen=True, slots=True)
class _Message:
    """A message as it is stored; `timestamp` is that of the log where `has_log_append_time`."""

    offset: int
    codec: int
    has_log_append_time: bool
    timestamp: int
    key: bytes | None
    value: bytes | None


def _batch_of_message(stored: memoryview) -> tuple[BatchHeader, memoryview]:
    """A message, with all that it holds, as a batch of the same offsets, times and codec, and the header of that."""
    magic, [outer] = stored[_MAGIC_AT], _messages(bytes(stored))
    records = [_record(outer, outer.offset, outer.timestamp)]
    if outer.codec:
        inner = list(_messages(decompress(outer.codec, outer.value or b"")))
        if not inner:
            raise ProtocolError(f"the message at offset {outer.offset} holds none; it was not copied")
        # Those of version 1 count from the first, and the outer one has the offset of the last.
        first = outer.offset - inner[-1].offset if magic else 0
        records = [
            _record(one, first + one.offset, outer.timestamp if outer.has_log_append_time else one.timestamp)
            for one in inner
        ]
    batch = encode(records, codec=outer.codec, with_offsets=True)
    return replace(read_header(memoryview(batch)), magic=magic), memoryview(batch)


def _messages(stored: bytes) -> Iterator[_Message]:
    """Raises `ProtocolError` for one whose CRC or fields do not add up."""
    position = 0
    while position < len(stored):
        offset, length = _LENGTH.unpack_from(stored, position)
        end = position + LENGTH_PREFIX_BYTES + length
        try:
            layout = _OF_MESSAGE[stored[position + _MAGIC_AT]]
            _, _, crc, _, attributes, *times = layout.unpack_from(stored, position)
            key, at = _read_field(stored, position + layout.size)
            value, at = _read_field(stored, at)
        except (KeyError, IndexError, struct.error) as error:
            raise ProtocolError(
                f"the message at offset {offset} ends too early; it was not copied"
            ) from error
        if at != end or zlib.crc32(stored[position + _MAGIC_AT : end]) != crc:
            raise ProtocolError(f"the message at offset {offset} fails its CRC; it was not copied")
        has_log_append_time = bool(attributes & LOG_APPEND_TIME)
        timestamp = times[0] if times else _NO_TIME
        yield _Message(offset, attributes & CODEC_MASK, has_log_append_time, timestamp, key, value)
        position = end


def _read_field(stored: bytes, position: int) -> tuple[bytes | None, int]:
    """A key or value and the position after it."""
    length, start = _INT.unpack_from(stored, position)[0], position + _INT.size
    return (None, start) if length == _NULL_LENGTH else (stored[start : start + length], start + length)


def _record(message: _Message, offset: int, timestamp: int) -> Record:
    fields = (
        signed(_NULL_LENGTH) if one is None else signed(len(one)) + one
        for one in (message.key, message.value)
    )
    return Record(offset, timestamp, 0, b"".join((*fields, _NO_HEADERS)))
