"""The codecs of record batches, by their number in the attributes."""

import gzip
import struct
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame

from ledger.errors import ProtocolError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_GZIP_LEVEL = 6
"""As producers have it by default: 9 takes eight times as long for a hundredth less."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT = struct.Struct(">i")


def _snappy_decompress(data: bytes) -> bytes:
    """Java's snappy streams are framed in blocks; other clients write one raw block."""
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, position = [], len(_XERIAL_HEADER)
    while position < len(data):
        size = _INT.unpack_from(data, position)[0]
        position += _INT.size
        if not 0 <= size <= len(data) - position:
            raise ValueError(f"a snappy block of {size} bytes at byte {position} of {len(data)}")
        out.append(bytes(cramjam.snappy.decompress_raw(data[position : position + size])))
        position += size
    return b"".join(out)


def _snappy_compress(data: bytes) -> bytes:
    out = [_XERIAL_HEADER]
    for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_BYTES]))
        out += (_INT.pack(len(block)), block)
    return b"".join(out)


def _lz4_compress(data: bytes) -> bytes:
    """Independent blocks: Kafka's reader refuses linked ones."""
    return bytes(lz4.frame.compress(data, block_linked=False))


_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NONE: bytes,
    GZIP: gzip.decompress,
    SNAPPY: _snappy_decompress,
    LZ4: lambda data: bytes(lz4.frame.decompress(data)),
    ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
_COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NONE: bytes,
    GZIP: lambda data: gzip.compress(
        data, _GZIP_LEVEL, mtime=0
    ),  # a fixed time: the same result on every run
    SNAPPY: _snappy_compress,
    LZ4: _lz4_compress,
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_BROKEN = (
    *(OSError, EOFError, RuntimeError, ValueError),
    MemoryError,  # a broken header may claim any size, which lz4 asks for at once
    *(cramjam.DecompressionError, struct.error, zlib.error),
)


def decompress(codec: int, data: bytes) -> bytes:
    """Records as they were before compression. Raises `ProtocolError` for an unknown codec or broken data."""
    return _apply(_DECOMPRESS, codec, data)


def compress(codec: int, data: bytes) -> bytes:
    """The same bytes for the same input and library versions."""
    return _apply(_COMPRESS, codec, data)


def _apply(table: dict[int, Callable[[bytes], bytes]], codec: int, data: bytes) -> bytes:
    if codec not in table:
        raise ProtocolError(f"codecs are {sorted(table)}, got {codec}; the batch was not decoded")
    try:
        return table[codec](data)
    except _BROKEN as error:
        raise ProtocolError(
            f"records of codec {codec} cannot be decoded: {error}; the batch was not copied"
        ) from error
