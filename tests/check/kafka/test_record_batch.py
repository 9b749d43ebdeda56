"""Batch headers: what a patch changes, what it leaves alone, and which batches are whole."""

import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.kafka.batches import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    batches,
    crc_matches,
    next_sequence,
    patch_for_target,
    payload_checksum,
    read_header,
)
from tests.simulation.kafka.stored_batches import Producer, StoredBatch, application_batch, content

PRINTED = settings(print_blob=True)


def batch(attributes: int = 0, count: int = 2) -> StoredBatch:
    return application_batch(
        [content(b"k", b"v")] * count, [1_000] * count, attributes=attributes, producer=Producer(7, 3, 11)
    )


@PRINTED
@given(
    st.integers(0, 4),
    st.lists(st.sampled_from([LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON]), unique=True),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31 - 1),
)
def test_a_patch_makes_the_batch_the_mirrors_own_and_keeps_the_rest(
    codec: int, bits: list[int], producer_id: int, sequence: int
) -> None:
    original = batch(codec | sum(bits)).encoded()
    patched = bytearray(original)
    before = read_header(memoryview(original))
    patch_for_target(memoryview(patched), before.attributes, producer_id=producer_id, sequence=sequence)
    after = read_header(memoryview(patched))
    assert patched[HEADER_BYTES:] == original[HEADER_BYTES:]
    assert patched[23:43] == original[23:43], "last offset delta and timestamps"
    assert patched[57:61] == original[57:61], "count"
    assert after.attributes == codec
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (producer_id, 0, sequence)
    assert (after.base_offset, after.leader_epoch, after.length) == (0, -1, before.length)
    assert after.crc == crc32c.crc32c(bytes(patched[21:]))
    assert crc_matches(after, memoryview(patched))


def test_only_the_codec_survives_of_the_attributes() -> None:
    for bit in range(3, 16):
        patched = bytearray(batch(2).encoded())
        attributes = struct.unpack(">h", struct.pack(">H", 1 << bit | 2))[0]
        patch_for_target(memoryview(patched), attributes, producer_id=1, sequence=0)
        assert read_header(memoryview(patched)).attributes == 2 == 2 & CODEC_MASK


def test_a_changed_byte_fails_the_crc() -> None:
    encoded = batch().encoded()
    header = read_header(memoryview(encoded))
    assert crc_matches(header, memoryview(encoded))
    for position in (21, 40, HEADER_BYTES, len(encoded) - 1):
        broken = bytearray(encoded)
        broken[position] ^= 1
        assert not crc_matches(read_header(memoryview(broken)), memoryview(broken)), position


@PRINTED
@given(st.integers(1, 4), st.integers(0, 200))
def test_a_cut_off_batch_at_the_end_is_left_out(whole: int, cut: int) -> None:
    encoded = batch().encoded()
    rest = encoded[: min(cut, len(encoded) - 1)]
    found = list(batches(memoryview(encoded * whole + rest)))
    assert [bytes(part) for _, part in found] == [encoded] * whole


def test_another_magic_and_an_impossible_length_are_refused() -> None:
    old = bytearray(batch().encoded())
    old[16] = 3
    with pytest.raises(ProtocolError, match="magic 2, got 3"):
        list(batches(memoryview(old)))
    short = bytearray(batch().encoded())
    struct.pack_into(">i", short, 8, 48)
    with pytest.raises(ProtocolError, match="at least 61 bytes, got 60"):
        list(batches(memoryview(short)))


def test_sequences_wrap_as_kafkas_do() -> None:
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 3, 5) == 2
    assert next_sequence(4, 3) == 7


def test_checksums_chain_over_payloads_only() -> None:
    one, two = memoryview(batch(count=1).encoded()), memoryview(batch(count=3).encoded())
    whole = bytes(one[HEADER_BYTES:]) + bytes(two[HEADER_BYTES:])
    assert payload_checksum(two, payload_checksum(one, 0)) == crc32c.crc32c(whole)
