"""What the pages of a Parquet file say of their values: readers skip a page by it, and no library shows it.

A page begins with a header, a struct in Thrift's compact protocol (`parquet.thrift`, `PageHeader`).
"""

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

_DICTIONARY = 2
_SIZE, _V1, _V2 = 3, 5, 8
"""Fields of a header: bytes of the page behind it, and the header of its values in one of two versions."""
_STATISTICS = {_V1: 5, _V2: 8}
_VALUES = {
    "INT32": lambda said: int.from_bytes(said, "little", signed=True),
    "INT64": lambda said: int.from_bytes(said, "little", signed=True),
    "BOOLEAN": lambda said: bool(said[0]),
    "DOUBLE": lambda said: struct.unpack("<d", said)[0],
    "BYTE_ARRAY": bytes.decode,
}


@dataclass(frozen=True, slots=True)
class Page:
    """So many `values`, nulls among them, with bounds; None: it says nothing of that."""

    values: int
    least: tuple[object, ...]
    greatest: tuple[object, ...]
    nulls: int | None


def pages_of(data: mmap.mmap, column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a part of a column with values. Raises `ValueError` where one cannot be read."""
    dictionary, first = column.dictionary_page_offset, column.data_page_offset
    at = min(dictionary, first) if dictionary else first
    ends = at + column.total_compressed_size
    try:
        while at < ends:
            header, begins = _struct(data, at)
            at = begins + header[_SIZE]
            if header[1] != _DICTIONARY:
                yield _page(header, _VALUES.get(column.physical_type))
    except (IndexError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"a page of {column.path_in_schema} has no header that can be read") from error


def _page(header: Mapping[int, Any], value: Callable[[bytes], object] | None) -> Page:
    version = _V1 if _V1 in header else _V2
    said = header[version].get(_STATISTICS[version], {})

    def bounds(*fields: int) -> tuple[object, ...]:
        return tuple(value(said[one]) for one in fields if one in said) if value is not None else ()

    return Page(header[version][1], bounds(2, 6), bounds(1, 5), said.get(3))


# Thrift -------------------------------------------------------------------------------------------


def _number(data: mmap.mmap, at: int) -> tuple[int, int]:
    """A number without a sign, and where what follows begins."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return found, at


def _struct(data: mmap.mmap, at: int) -> tuple[dict[int, Any], int]:
    """The fields by number."""
    found: dict[int, Any] = {}
    field = 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            number, at = _number(data, at)
            field = (number >> 1) ^ -(number & 1)
        found[field], at = _value(data, at, head & 0x0F)
    return found, at + 1


def _value(data: mmap.mmap, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind in (4, 5, 6):
        number, at = _number(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == 8:
        size, at = _number(data, at)
        return data[at : at + size], at + size
    if kind == 12:
        return _struct(data, at)
    raise TypeError(f"no header has a field of kind {kind}")
