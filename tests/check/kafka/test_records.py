"""The record path: every codec, what other clients write, and bytes that do not add up."""

import gzip
import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ledger.errors import ProtocolError
from ledger.kafka import codecs
from ledger.kafka.batches import LOG_APPEND_TIME, Record, decode, encode, read_header
from tests.simulation.kafka.stored_batches import StoredBatch, StoredRecord, application_batch, content

PRINTED = settings(print_blob=True, deadline=None)
CODECS = (codecs.NONE, codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD)
KAFKA_PYTHON_CODECS = (
    codecs.NONE,
    codecs.GZIP,
    codecs.LZ4,
)  # it has no library for the others here
nullable = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.sampled_from(["trace", "trace", "h\u00e4", ""]), nullable), max_size=4)
RawRecord = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
"""Key, value, headers and timestamp."""
raw_records: st.SearchStrategy[list[RawRecord]] = st.lists(
    st.tuples(nullable, nullable, headers, st.integers(0, 2**41)), min_size=1, max_size=8
)


def decoded(batch: bytes) -> list[Record]:
    return decode(read_header(memoryview(batch)), memoryview(batch))


@PRINTED
@pytest.mark.parametrize("codec", CODECS)
@given(raw=raw_records)
def test_re_encoding_keeps_the_records(codec: int, raw: list[RawRecord]) -> None:
    contents = [content(key, value, pairs) for key, value, pairs, _ in raw]
    timestamps = [timestamp for *_, timestamp in raw]
    stored = application_batch(contents, timestamps, attributes=codec).encoded()
    again = bytes(encode(decoded(stored), codec=codec))
    assert decoded(again) == decoded(stored)
    expected = [(n, ts, content(key, value, pairs)) for n, (key, value, pairs, ts) in enumerate(raw)]
    assert [(r.offset, r.timestamp, r.content) for r in decoded(again)] == expected
    header = read_header(memoryview(again))
    assert (header.base_timestamp, header.max_timestamp) == (timestamps[0], max(timestamps))
    assert header.is_dense
    assert header.codec == codec


@PRINTED
@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@given(raw=raw_records)
def test_what_is_re_encoded_is_read_by_kafka_python(codec: int, raw: list[RawRecord]) -> None:
    contents = [content(key, value, pairs) for key, value, pairs, _ in raw]
    stored = application_batch(contents, [timestamp for *_, timestamp in raw], attributes=codec).encoded()
    batch = DefaultRecordBatch(bytes(encode(decoded(stored), codec=codec)))
    assert batch.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert read == [(n, ts, key, value, pairs) for n, (key, value, pairs, ts) in enumerate(raw)]


@PRINTED
@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@given(raw=raw_records)
def test_what_kafka_python_writes_is_read(codec: int, raw: list[RawRecord]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for offset, (key, value, pairs, timestamp) in enumerate(raw):
        builder.append(offset, timestamp, key, value, pairs)
    records = decoded(bytes(builder.build()))
    expected = [(n, ts, content(key, value, pairs)) for n, (key, value, pairs, ts) in enumerate(raw)]
    assert [(r.offset, r.timestamp, r.content) for r in records] == expected


def test_holes_stay_at_the_source_and_are_closed_at_the_target() -> None:
    stored = StoredBatch(
        records=(StoredRecord(1, 900, content(b"a", None)), StoredRecord(4, 700, content(None, b"b"))),
        last_offset_delta=6,
        base_timestamp=1_000,
        max_timestamp=900,
        base_offset=50,
    ).encoded()
    records = decoded(stored)
    assert [(r.offset, r.timestamp) for r in records] == [(51, 900), (54, 700)]
    again = decoded(bytes(encode(records, codec=0)))
    assert [(r.offset, r.timestamp, r.content) for r in again] == [
        (0, 900, content(b"a", None)),
        (1, 700, content(None, b"b")),
    ]


def test_log_append_time_is_what_readers_see() -> None:
    stored = application_batch([content(None, b"v")] * 2, [5, 6], attributes=LOG_APPEND_TIME).encoded()
    assert [record.timestamp for record in decoded(stored)] == [6, 6]


def test_both_snappy_framings_are_read() -> None:
    data = bytes(range(256)) * 300
    framed = codecs.compress(codecs.SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    assert codecs.decompress(codecs.SNAPPY, framed) == data
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert codecs.decompress(codecs.SNAPPY, raw) == data


def test_lz4_blocks_are_independent() -> None:
    frame = codecs.compress(codecs.LZ4, b"x" * 200_000)
    assert frame[4] & 0x20, "Kafka's reader refuses linked blocks"


def test_compression_gives_the_same_bytes_every_time() -> None:
    for codec in CODECS:
        assert codecs.compress(codec, b"abc" * 99) == codecs.compress(codec, b"abc" * 99)


@PRINTED
@pytest.mark.parametrize("codec", CODECS[1:])
@given(data=st.data())
def test_broken_compressed_bytes_are_a_protocol_error(codec: int, data: st.DataObject) -> None:
    whole = bytearray(codecs.compress(codec, b"some records " * 20))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(whole)))
    try:
        codecs.decompress(codec, bytes(whole[:cut]))
    except ProtocolError as error:
        assert f"codec {codec}" in str(error)  # noqa: PT017  not every change breaks a stream


def test_a_frame_that_claims_more_than_any_memory_is_a_protocol_error() -> None:
    """A content size of 160 * 2^48 bytes, with a header checksum that happens to be right."""
    whole = bytearray(codecs.compress(codecs.LZ4, b"some records " * 20))
    whole[12] ^= 160
    with pytest.raises(ProtocolError, match="codec 3"):
        codecs.decompress(codecs.LZ4, bytes(whole))


@pytest.mark.parametrize("block_bytes", [-4, -8, 100])
def test_a_snappy_block_of_an_impossible_size_is_refused(block_bytes: int) -> None:
    framed = codecs.compress(codecs.SNAPPY, b"")[:16] + struct.pack(">i", block_bytes) + b"1234"
    with pytest.raises(ProtocolError):
        codecs.decompress(codecs.SNAPPY, framed)


def test_a_broken_deflate_stream_is_refused() -> None:
    broken = bytearray(gzip.compress(b"some records " * 20, mtime=0))
    broken[12] = 0xFF
    with pytest.raises(ProtocolError):
        codecs.decompress(codecs.GZIP, bytes(broken))


def test_unknown_codecs_are_refused() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(ProtocolError, match="codecs are"):
            codecs.decompress(codec, b"")


def test_records_that_do_not_add_up_are_refused() -> None:
    stored = bytearray(application_batch([content(None, b"v")] * 2, [5, 6]).encoded())
    struct.pack_into(">i", stored, 57, 3)
    with pytest.raises(ProtocolError, match="must hold 3 records, found 2"):
        decoded(bytes(stored))
    header = read_header(memoryview(stored))
    with pytest.raises(ProtocolError, match="end too early"):
        decode(header, memoryview(stored)[:-1])
