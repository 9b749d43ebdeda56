"""Messages of versions 0 and 1, as brokers before 0.11 have left them in their logs."""

import gzip
import struct
import zlib
from collections.abc import Sequence

_GZIP, _LOG_APPEND_TIME = 1, 8


def message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp_ms: int = 0,
) -> bytes:
    time_of_1 = struct.pack(">q", timestamp_ms) if magic == 1 else b""
    fields = b"".join(
        struct.pack(">i", -1 if one is None else len(one)) + (one or b"") for one in (key, value)
    )
    body = struct.pack(">bb", magic, attributes) + time_of_1 + fields
    with_crc = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(with_crc)) + with_crc


def wrapped(
    magic: int, offsets: Sequence[int], *, stamped_ms: int | None = None, timestamp_ms: int = 0
) -> bytes:
    """A gzip wrapper of messages `k{offset}`: `v{offset}` with these offsets in the log, some may be missing."""
    first = offsets[0] if magic == 1 else 0
    inner = b"".join(
        message(magic, at - first, b"k%d" % at, b"v%d" % at, timestamp_ms=timestamp_ms + at) for at in offsets
    )
    attributes = _GZIP | (0 if stamped_ms is None else _LOG_APPEND_TIME)
    outer_ms = timestamp_ms + offsets[-1] if stamped_ms is None else stamped_ms
    content = gzip.compress(inner)
    return message(magic, offsets[-1], None, content, attributes=attributes, timestamp_ms=outer_ms)
