"""Records inside a batch: the slow path, for batches that must not be copied as they are.

A record is: length, attributes, timestamp delta, offset delta, then key, value and headers, which
this module keeps as one run of bytes (`content`) and never decodes. Source: Kafka's `DefaultRecord`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.errors import ProtocolError
from ledger.wire import compression, varint
from ledger.wire.record_batch import HEADER_BYTES, BatchHeader, build


@dataclass(frozen=True, slots=True)
class Record:
    """One record with its place in the log; `content` is key, value and headers as encoded."""

    offset: int
    timestamp: int
    attributes: int
    content: bytes


def decode(header: BatchHeader, batch: memoryview) -> list[Record]:
    """The batch's records, timestamps as a consumer sees them. Raises `ProtocolError` when they do not add up."""
    payload = compression.decompress(header.codec, bytes(batch[HEADER_BYTES:]))
    try:
        records = list(_decode_payload(header, payload))
    except IndexError as error:
        raise ProtocolError(
            f"the records at offset {header.base_offset} end too early; they were not copied"
        ) from error
    if len(records) != header.count:
        raise ProtocolError(
            f"the batch at offset {header.base_offset} must hold {header.count} records, found {len(records)}; "
            "it was not copied"
        )
    return records


def _decode_payload(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    position = 0
    while position < len(payload):
        size, position = varint.read_signed(payload, position)
        end = position + size
        if size < 0 or end > len(payload):
            raise IndexError
        attributes = payload[position]
        timestamp_delta, position = varint.read_signed(payload, position + 1)
        offset_delta, position = varint.read_signed(payload, position)
        timestamp = (
            header.max_timestamp if header.has_log_append_time else header.base_timestamp + timestamp_delta
        )
        yield Record(header.base_offset + offset_delta, timestamp, attributes, payload[position:end])
        position = end


def encode(records: list[Record], *, codec: int) -> bytearray:
    """A dense, unpatched batch of the records, in order, whatever their offsets were."""
    base_timestamp = records[0].timestamp
    payload = bytearray()
    for delta, record in enumerate(records):
        body = b"".join(
            (
                bytes((record.attributes,)),
                varint.signed(record.timestamp - base_timestamp),
                varint.signed(delta),
                record.content,
            )
        )
        payload += varint.signed(len(body))
        payload += body
    return build(
        attributes=codec,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        count=len(records),
        payload=compression.compress(codec, bytes(payload)),
    )
