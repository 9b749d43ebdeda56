"""Key, value and headers inside the content of a record, for whoever has to read it.

Source: Kafka's `DefaultRecord`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.errors import ProtocolError
from ledger.kafka.batches import read_signed, signed

_NONE = signed(-1)


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Of a record; the value is skipped."""

    key: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def read_fields(content: bytes) -> RecordFields:
    """The fields of a record's content. Raises `ProtocolError` when its lengths do not add up."""
    try:
        key, position = _read_bytes(content, 0)
        _, position = _read_bytes(content, position)
        count, position = read_signed(content, position)
        headers = []
        for _ in range(count):
            name, position = _read_bytes(content, position)
            value, position = _read_bytes(content, position)
            headers.append((name or b"", value))
    except IndexError as error:
        raise ProtocolError("the fields of a record end too early; it was not copied") from error
    if count < 0 or position != len(content):
        raise ProtocolError(
            f"the fields of a record end at byte {position} of {len(content)}, with {count} headers; "
            "it was not copied"
        )
    return RecordFields(key, tuple(headers))


def key_of(content: bytes) -> bytes | None:
    """Of a record's content; None: it has none. Raises `ProtocolError` when it is longer than that."""
    try:
        return _read_bytes(content, 0)[0]
    except IndexError as error:
        raise ProtocolError("the key of a record ends too late; nothing was done with it") from error


def key_and_value(content: bytes) -> tuple[bytes | None, bytes | None]:
    """Of a record's content; None: a null. Raises `ProtocolError` when it ends within them."""
    try:
        key, position = _read_bytes(content, 0)
        return key, _read_bytes(content, position)[0]
    except IndexError as error:
        raise ProtocolError("the key or the value of a record ends too early") from error


def with_headers(content: bytes, more: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A record's content with more headers behind its own. Raises `ProtocolError` when its lengths do not add up."""
    count = len(read_fields(content).headers)
    _, position = _read_bytes(content, 0)
    _, position = _read_bytes(content, position)
    _, start = read_signed(content, position)
    added = b"".join(signed(len(part)) + part for header in more for part in header)
    return content[:position] + signed(count + len(more)) + content[start:] + added


@dataclass(frozen=True, slots=True)
class KeyState:
    """Key of a record (None: it has none) and whether its value is null."""

    key: bytes | None
    is_tombstone: bool


def key_state(content: bytes) -> KeyState:
    """What a cleaner goes by. Raises `ProtocolError` when key and value are longer than the content."""
    try:
        key, position = _read_bytes(content, 0)
        value_size, position = read_signed(content, position)
    except IndexError as error:
        raise ProtocolError("the key of a record ends too late; nothing was done with it") from error
    if position + max(value_size, 0) > len(content):
        raise ProtocolError("the value of a record ends too late; nothing was done with it")
    return KeyState(key, value_size < 0)


def tombstone(key: bytes) -> bytes:
    """The content of a record that deletes the key: no value, no headers."""
    return signed(len(key)) + key + _NONE + signed(0)


def _read_bytes(content: bytes, position: int) -> tuple[bytes | None, int]:
    """A length and that many bytes; -1 stands for none. Raises `IndexError` past the end."""
    byte = content[position]
    size, start = (byte >> 1 ^ -(byte & 1), position + 1) if byte < 0x80 else read_signed(content, position)
    if size < 0:
        return None, start
    end = start + size
    if end > len(content):
        raise IndexError
    return content[start:end], end
