"""Variable-length integers of the Kafka protocol: plain (unsigned) and zig-zag."""

from ledger.errors import ProtocolError

Buffer = bytes | bytearray | memoryview


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
