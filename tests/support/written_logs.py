"""Partitions as bytes: batches that a test encodes, at offsets of its own, and logs that answer with them."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ledger.kafka.batches import LOG_APPEND_TIME, Record, build, encode, signed
from ledger.kafka.codecs import NONE
from ledger.kafka.requests import Fetched

_RESPONSE_BATCHES = 3


def content(value: bytes | None, key: bytes = b"k") -> bytes:
    shown = signed(-1) if value is None else signed(len(value)) + value
    return signed(len(key)) + key + shown + signed(0)


def batch(
    offsets: Sequence[int],
    contents: Sequence[bytes],
    *,
    codec: int = NONE,
    time: int = 1_000,
    log_time: bool = False,
) -> bytes:
    """A batch whose records lie at these offsets, the first of which is its base."""
    base = offsets[0]
    records = [
        Record(offset - base, time + number, 0, one)
        for number, (offset, one) in enumerate(zip(offsets, contents, strict=True))
    ]
    made = encode(records, codec=codec, with_offsets=True)
    if log_time:
        attributes = codec | LOG_APPEND_TIME
        payload = bytes(made[61:])
        made = build(
            attributes=attributes,
            base_timestamp=time,
            max_timestamp=99_000,
            count=len(records),
            payload=payload,
            last_offset_delta=offsets[-1] - base,
        )
    struct.pack_into(">q", made, 0, base)
    return bytes(made)


def response(found: Iterable[bytes]) -> Fetched:
    return Fetched("orders", 0, 0, 10, 10, 0, (), memoryview(b"".join(found)), None)


@dataclass
class Log:
    """Batches in the order of their offsets; answers a few of them at once, from the one that holds an offset on."""

    batches: list[bytes]
    asked: list[int] = field(default_factory=list)

    def fetched(self, offset: int, *, min_bytes: int) -> Fetched:
        assert min_bytes
        self.asked.append(offset)
        found = [one for one in self.batches if _end(one) > offset][:_RESPONSE_BATCHES]
        return response(found)


def _end(one: bytes) -> int:
    base: int = struct.unpack_from(">q", one, 0)[0]
    last: int = struct.unpack_from(">i", one, 23)[0]
    return base + last + 1
