"""Key and headers inside the content of a record, for whoever has to look into it. Source: Kafka's `DefaultRecord`."""

from dataclasses import dataclass

from ledger.errors import ProtocolError
from ledger.wire import varint


@dataclass(frozen=True, slots=True)
class RecordFields:
    """What a record is chosen by; the value is passed over."""

    key: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def read_fields(content: bytes) -> RecordFields:
    """The fields of a record's content. Raises `ProtocolError` when its lengths do not add up."""
    try:
        key, position = _read_bytes(content, 0)
        _, position = _read_bytes(content, position)
        count, position = varint.read_signed(content, position)
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


def _read_bytes(content: bytes, position: int) -> tuple[bytes | None, int]:
    """A length and that many bytes; -1 stands for none. Raises `IndexError` past the end."""
    size, position = varint.read_signed(content, position)
    if size < 0:
        return None, position
    if position + size > len(content):
        raise IndexError
    return content[position : position + size], position + size
