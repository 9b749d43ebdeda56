"""Varints against the protocol's own definition, and against the bytes that Kafka's documentation gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.kafka import batches

PRINTED = settings(print_blob=True)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**63, b"\x80" * 9 + b"\x01"),
    ],
)
def test_unsigned_bytes(value: int, encoded: bytes) -> None:
    assert batches.unsigned(value) == encoded
    assert batches.read_unsigned(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (1, b"\x02"),
        (-2, b"\x03"),
        (63, b"\x7e"),
        (-64, b"\x7f"),
        (64, b"\x80\x01"),
    ],
)
def test_signed_bytes(value: int, encoded: bytes) -> None:
    assert batches.signed(value) == encoded
    assert batches.read_signed(encoded, 0) == (value, len(encoded))


@PRINTED
@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_signed_round_trip_inside_other_bytes(value: int, before: bytes, after: bytes) -> None:
    buffer = memoryview(before + batches.signed(value) + after)
    assert batches.read_signed(buffer, len(before)) == (value, len(buffer) - len(after))


def test_an_endless_varint_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at most 10 bytes"):
        batches.read_unsigned(b"\xff" * 11, 0)


def test_a_cut_off_varint_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        batches.read_unsigned(b"\xff\xff", 0)
