"""The codecs of record batches, by their number in the attributes."""

import gzip
import io
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import cramjam
import lz4.frame

from ledger.errors import ProtocolError, UnpackedSizeError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_GZIP_LEVEL = 6
"""As producers have it by default: 9 takes eight times as long for a hundredth less."""
MOST_UNPACKED_BYTES = 128 * 1024 * 1024
"""More than a request may have, uncompressed; to read and to write records again takes three times as much memory."""
_TOO_LARGE = f"unpacks to more than {MOST_UNPACKED_BYTES:,} B, which are too many; it was not copied"
_LZ4_RATIO = 255  # more is not possible
_SMALL_BYTES = 64 * 1024
_PIECE_BYTES = 1024 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT = struct.Struct(">i")


def _pieces(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """As much of a stream as may be held."""
    size = 0
    while piece := stream.read(_PIECE_BYTES):
        yield piece
        if (size := size + len(piece)) > MOST_UNPACKED_BYTES:
            raise UnpackedSizeError(_TOO_LARGE)


def _lz4_decompress(data: bytes) -> bytes:
    if len(data) * _LZ4_RATIO <= MOST_UNPACKED_BYTES:
        return bytes(lz4.frame.decompress(data))
    return b"".join(_pieces(lz4.frame.LZ4FrameFile(io.BytesIO(data))))


def _zstd_decompress(data: bytes) -> bytes:
    """Into so much memory and no more: nothing says in front what it comes to."""
    small = bytearray(_SMALL_BYTES)
    with suppress(cramjam.DecompressionError):
        return bytes(memoryview(small)[: cramjam.zstd.decompress_into(data, small)])
    with mmap.mmap(-1, MOST_UNPACKED_BYTES) as most:
        try:
            return most[: cramjam.zstd.decompress_into(data, most)]
        except cramjam.DecompressionError as error:
            raise (UnpackedSizeError(_TOO_LARGE) if "whole buffer" in str(error) else error) from None


def _snappy_decompress(data: bytes) -> bytes:
    """Java's snappy streams are framed in blocks; other clients write one raw block."""
    blocks = list(_snappy_blocks(data)) if data.startswith(_XERIAL_MAGIC) else [data]
    if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > MOST_UNPACKED_BYTES:
        raise UnpackedSizeError(_TOO_LARGE)
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    position = len(_XERIAL_HEADER)
    while position < len(data):
        size = _INT.unpack_from(data, position)[0]
        position += _INT.size
        if not 0 <= size <= len(data) - position:
            raise ValueError(f"a snappy block of {size} bytes at byte {position} of {len(data)}")
        yield data[position : position + size]
        position += size


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
    GZIP: lambda data: b"".join(_pieces(gzip.GzipFile(fileobj=io.BytesIO(data)))),
    SNAPPY: _snappy_decompress,
    LZ4: _lz4_decompress,
    ZSTD: _zstd_decompress,
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
    """Records as they were before compression. Raises `ProtocolError` for an unknown codec, broken data or too much."""
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
