"""Key and headers out of a record's content."""

import pytest

from ledger.errors import ProtocolError
from ledger.kafka import batches
from ledger.kafka.record_fields import KeyState, RecordFields, key_state, read_fields, tombstone
from tests.simulation.kafka.stored_batches import content


def text(value: bytes | None) -> bytes:
    return batches.signed(-1) if value is None else batches.signed(len(value)) + value


def encoded(key: bytes | None, *headers: tuple[bytes, bytes | None], count: int | None = None) -> bytes:
    number = batches.signed(len(headers) if count is None else count)
    return text(key) + text(b"value") + number + b"".join(text(n) + text(v) for n, v in headers)


@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 300, b"\xff"])
@pytest.mark.parametrize("headers", [(), ((b"a", b"1"), (b"a", None), (b"", b""))])
def test_fields_come_back_as_they_were_written(
    key: bytes | None, headers: tuple[tuple[bytes, bytes | None], ...]
) -> None:
    assert read_fields(encoded(key, *headers)) == RecordFields(key, headers)


def test_the_value_is_passed_over_also_when_there_is_none() -> None:
    assert read_fields(text(b"k") + text(None) + batches.signed(0)) == RecordFields(b"k", ())
    assert read_fields(content(b"k", b"v" * 1000)) == RecordFields(b"k", ())


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        text(b"k"),
        encoded(b"k")[:-1],
        encoded(b"k", (b"a", b"1"))[:-1],
        encoded(b"k", (b"a", b"1"), count=2),
        encoded(b"k", (b"a", b"1"), count=0),
        encoded(b"k", count=-1),
        encoded(b"k") + b"\x00",
    ],
)
def test_lengths_that_do_not_add_up_are_an_error(broken: bytes) -> None:
    with pytest.raises(ProtocolError, match="was not copied"):
        read_fields(broken)


@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 300])
@pytest.mark.parametrize("value", [None, b"", b"v" * 300])
def test_a_value_of_no_bytes_is_no_tombstone(key: bytes | None, value: bytes | None) -> None:
    assert key_state(content(key, value, [("a", b"1")])) == KeyState(key, value is None)


@pytest.mark.parametrize("key", [b"", b"key", b"k" * 300])
def test_a_tombstone_is_a_key_without_value_and_headers(key: bytes) -> None:
    assert tombstone(key) == content(key, None)


@pytest.mark.parametrize("broken", [b"", text(b"k"), text(b"key")[:-1], text(b"k") + text(b"value")[:-1]])
def test_a_key_or_value_that_ends_too_late_is_an_error(broken: bytes) -> None:
    with pytest.raises(ProtocolError, match="ends too late"):
        key_state(broken)
