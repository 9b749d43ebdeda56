"""The record path against a second reader: of a repacked batch kafka-python reads what it read at the source."""

import struct
from dataclasses import dataclass, replace

import crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch

from ledger.errors import ProtocolError
from ledger.facts.syncs import Gap, GapCause
from ledger.kafka import batches, codecs
from ledger.kafka.batches import HEADER_BYTES, LOG_APPEND_TIME, Record, patch_for_target, read_header, signed
from ledger.kafka.repacking import RecordTest, Repacked, repacked
from tests.simulation.kafka.stored_batches import StoredBatch, StoredRecord, content

PRINTED = settings(print_blob=True, deadline=None, max_examples=60)
FEWER = settings(PRINTED, max_examples=25)
CODECS = (codecs.NONE, codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD)
BASE, NOW_MS, APPENDED_MS = 1_000, 1_700_000_000_000, 1_700_000_123_456
Read = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Time, key, value and headers."""

nullable = st.none() | st.binary(max_size=70)
headers = st.lists(st.tuples(st.sampled_from(["trace", "h\u00e4", ""]), nullable), max_size=70)
deltas_ms = st.sampled_from([0, 1, 63, 64, -1, -64, -65, 8_191, 8_192, -(2**40), 2**40])


@dataclass(frozen=True)
class Source:
    """A batch of a source: offset deltas and time deltas of its records, and what is kept of them."""

    records: tuple[tuple[int, int, bytes], ...]
    behind: int
    attributes: int
    kept: frozenset[int]
    begin: int

    @property
    def stored(self) -> bytes:
        attributes = self.attributes & ~LOG_APPEND_TIME
        made = StoredBatch(
            records=tuple(
                StoredRecord(delta, NOW_MS + later_ms, data) for delta, later_ms, data in self.records
            ),
            last_offset_delta=self.records[-1][0] + self.behind,
            base_timestamp=NOW_MS,
            max_timestamp=APPENDED_MS,
            attributes=attributes,
            base_offset=BASE,
        ).encoded()
        return with_attributes(made, self.attributes)

    @property
    def left_out(self) -> RecordTest | None:
        if self.kept >= {delta for delta, *_ in self.records}:
            return None
        return lambda record: None if record.offset - BASE in self.kept else GapCause.FILTERED


def with_attributes(stored: bytes, attributes: int) -> bytes:
    """A broker sets the timestamp type as it appends, and leaves the time deltas as they were sent."""
    changed = bytearray(stored)
    struct.pack_into(">h", changed, 21, attributes)
    struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    count = draw(st.integers(1, 5) | st.sampled_from([63, 64, 65, 66, 130]))
    holes = draw(st.sets(st.integers(0, count - 1), max_size=3))
    contents = draw(st.lists(st.builds(content, nullable, nullable, headers), min_size=1, max_size=3))
    times = draw(st.lists(deltas_ms, min_size=1, max_size=4))
    records, delta = [], 0
    for number in range(count):
        delta += 1 + (number in holes) if number else number in holes
        records.append((delta, times[number % len(times)], contents[number % len(contents)]))
    offsets = [delta for delta, *_ in records]
    return Source(
        tuple(records),
        behind=draw(st.integers(0, 2)),
        attributes=draw(st.sampled_from(CODECS)) | draw(st.sampled_from([0, LOG_APPEND_TIME])),
        kept=frozenset(offsets)
        - draw(st.just(frozenset()) | st.frozensets(st.sampled_from(offsets), max_size=9)),
        begin=draw(st.sampled_from([0, 0, offsets[0], offsets[-1], offsets[-1] + 1])),
    )


def repack(stored: bytes, *, position: int = BASE, left_out: RecordTest | None = None) -> Repacked:
    batch = memoryview(bytearray(stored))
    return repacked(read_header(batch), batch, position=position, left_out=left_out)


def read(stored: bytes) -> list[tuple[int, Read]]:
    """By offset what kafka-python reads; it has no library for some codecs here, so these are opened for it."""
    header = read_header(memoryview(stored))
    payload = codecs.decompress(header.codec, stored[HEADER_BYTES:])
    opened = bytearray(stored[:HEADER_BYTES] + payload)
    struct.pack_into(">i", opened, 8, len(opened) - 12)
    plain = DefaultRecordBatch(with_attributes(bytes(opened), header.attributes & ~batches.CODEC_MASK))
    assert plain.validate_crc()
    return [(one.offset, (one.timestamp, one.key, one.value, list(one.headers))) for one in plain]


@PRINTED
@given(source=sources())
def test_readers_of_the_target_see_what_readers_of_the_source_saw(source: Source) -> None:
    """Every record that is kept, in order, and where each of the others was, a gap that says why."""
    position = BASE + source.begin
    found = repack(source.stored, position=position, left_out=source.left_out)
    seen = [(offset, one) for offset, one in read(source.stored) if offset >= position]
    kept = [(offset, one) for offset, one in seen if offset - BASE in source.kept]
    gaps = {offset: gap.cause for gap in found.gaps for offset in range(gap.source_start, gap.source_end)}
    end = BASE + source.records[-1][0] + source.behind + 1
    assert gaps.keys() | {offset for offset, _ in kept} == set(range(position, end))
    assert len(gaps) + len(kept) == end - position
    assert {offset for offset, cause in gaps.items() if cause is GapCause.FILTERED} == {
        offset for offset, _ in seen
    } - {offset for offset, _ in kept}
    if found.batch is None:
        assert not kept
        return
    header = read_header(found.batch)
    sent = bytearray(found.batch)
    patch_for_target(memoryview(sent), header.attributes, producer_id=7, sequence=0)
    assert read(bytes(sent)) == list(enumerate(one for _, one in kept))
    assert (header.is_dense, header.count, header.codec) == (True, len(kept), source.attributes & 0x07)
    assert (found.first_timestamp, max(time for _, (time, *_) in kept)) == (
        kept[0][1][0],
        header.max_timestamp,
    ) or (bytes(found.batch) == source.stored)
    if kept[0][0] != BASE + source.records[0][0]:
        assert header.base_timestamp == found.first_timestamp, "a time of a record that was left out"


def plain(count: int, *, later_ms: int = 0, attributes: int = 0, value: bytes = b"value") -> Source:
    records = tuple((n, later_ms * n, content(b"k%d" % n, value)) for n in range(count))
    return Source(records, behind=0, attributes=attributes, kept=frozenset(range(count)), begin=0)


def test_offsets_of_one_two_and_three_bytes_are_counted_from_the_first_that_is_kept() -> None:
    stored, first = plain(8_300).stored, 60
    found = repack(stored, position=BASE + first)
    assert found.batch is not None
    assert not found.gaps
    assert read(bytes(found.batch)) == [(offset - BASE - first, one) for offset, one in read(stored)[first:]]


@pytest.mark.parametrize("codec", CODECS)
def test_where_no_record_changes_the_bytes_stay_as_they_were_compressed(codec: int) -> None:
    stored = plain(20, attributes=codec | LOG_APPEND_TIME).stored
    found = repack(stored)
    assert found.batch is not None
    assert bytes(found.batch[HEADER_BYTES:]) == stored[HEADER_BYTES:]
    header = read_header(found.batch)
    assert (header.base_timestamp, header.max_timestamp, header.attributes) == (
        APPENDED_MS,
        APPENDED_MS,
        codec,
    )


def test_a_batch_that_may_go_as_it_is_is_the_same_object() -> None:
    batch = memoryview(plain(3, later_ms=5).stored)
    kept = repacked(read_header(batch), batch, position=BASE, left_out=lambda _record: None)
    assert kept.batch is batch
    assert kept.first_timestamp == NOW_MS


def test_what_is_left_out_is_asked_with_the_time_that_readers_see() -> None:
    asked: list[Record] = []
    repack(
        plain(3, later_ms=70, attributes=LOG_APPEND_TIME).stored, left_out=lambda record: asked.append(record)
    )
    assert [(one.offset, one.timestamp, one.content) for one in asked] == [
        (BASE + n, APPENDED_MS, content(b"k%d" % n, b"value")) for n in range(3)
    ]


def test_stretches_of_one_cause_are_one_gap() -> None:
    kept = frozenset({3, 9})
    source = replace(plain(12), kept=kept)
    found = repack(source.stored, left_out=source.left_out)
    filtered = [(0, 3), (4, 9), (10, 12)]
    assert found.gaps == tuple(Gap(BASE + a, BASE + b, GapCause.FILTERED) for a, b in filtered)


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
@pytest.mark.parametrize("behind", [0, 1], ids=["dense", "cleaned"])
@FEWER
@given(data=st.data())
@example(data=None)
def test_bytes_that_do_not_add_up_are_a_protocol_error(
    attributes: int, behind: int, data: st.DataObject | None
) -> None:
    """Not every change breaks a batch: where kafka-python still reads it, it reads the same of what became of it."""
    source = replace(plain(3, later_ms=3, attributes=attributes), behind=behind)
    broken = bytearray(source.stored)
    if data is None:
        del broken[-1]
    else:
        at = data.draw(st.integers(HEADER_BYTES, len(broken) - 1))
        broken[at] ^= data.draw(st.integers(1, 255))
    struct.pack_into(">i", broken, 8, len(broken) - 12)
    stored = with_attributes(bytes(broken), attributes)
    try:
        found = repack(stored)
    except ProtocolError as error:
        assert str(BASE) in str(error) or "varint" in str(error)  # noqa: PT017  not every change breaks a batch
        return
    try:
        seen = [one for offset, one in read(stored) if offset >= BASE]
    except (CorruptRecordError, UnicodeDecodeError, IndexError, ValueError):
        return
    assert [one for _, one in (read(bytes(found.batch)) if found.batch else ())] == seen


@pytest.mark.parametrize("length", [signed(-3), signed(0), signed(2), signed(2**40), b"\xff" * 11])
@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_a_record_of_an_impossible_length_is_refused(length: bytes, attributes: int) -> None:
    stored = plain(1, attributes=attributes).stored
    broken = bytearray(stored[:HEADER_BYTES] + length + stored[HEADER_BYTES + 1 :])
    struct.pack_into(">i", broken, 8, len(broken) - 12)
    with pytest.raises(ProtocolError):
        repack(with_attributes(bytes(broken), attributes))


def test_records_that_do_not_rise_are_refused() -> None:
    records = (*plain(3).records[:2], (0, 0, content(b"k", b"v")))
    with pytest.raises(ProtocolError):
        repack(replace(plain(3), records=records, behind=2).stored)
