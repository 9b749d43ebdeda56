"""Two logs and a map: what is the same, where they differ first, and what has a name.

The oracle is how each log was written: batches are encoded here, record by record.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from ledger.comparing.partition import (
    Difference,
    Found,
    OffsetPairs,
    ReadableLog,
    compare,
    compare_keys,
    last_of_keys,
)
from ledger.facts.history import Segment
from ledger.kafka.batches import CONTROL, Record, build, encode, patch_for_target
from ledger.kafka.codecs import GZIP, NONE
from ledger.kafka.requests import Fetched
from tests.support.written_logs import Log, batch, content, response


def copied(source: bytes, base: int) -> bytes:
    """The batch as a flow's: its own producer, another place."""
    made = bytearray(source)
    patch_for_target(memoryview(made), made[22], producer_id=4_000, sequence=7)
    struct.pack_into(">q", made, 0, base)
    return bytes(made)


def compared(
    source: ReadableLog, target: ReadableLog, segments: Sequence[Segment], *, is_cleaned: bool = False
) -> Found:
    pairs, found = OffsetPairs(segments), Found()
    stretch = pairs.stretch(0, segments[-1].source_end)
    assert stretch is not None
    compare(source, target, pairs, stretch, found, is_cleaned=is_cleaned)
    return found


VALUES = [content(b"value-%d" % number) for number in range(9)]


def three(codec: int = NONE) -> list[bytes]:
    return [batch(range(first, first + 3), VALUES[first : first + 3], codec=codec) for first in (0, 3, 6)]


ALL = [Segment(0, 9, 100)]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_batches_of_another_producer_at_other_offsets_are_the_same(codec: int) -> None:
    source = three(codec)
    target = [copied(one, 100 + number * 3) for number, one in enumerate(source)]
    found = compared(Log(source), Log(target), ALL)
    assert (found.records, found.differing, found.first) == (9, 0, None)


def test_records_are_the_same_in_whatever_batches_they_lie() -> None:
    target = [batch(range(100, 104), VALUES[:4]), batch(range(104, 109), VALUES[4:], time=1_004, codec=GZIP)]
    source = [batch(range(9), VALUES)]
    assert compared(Log(source), Log(target), ALL).records == 9


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_one_record_that_differs_is_named_with_both_offsets(place: int, codec: int) -> None:
    changed = [*VALUES[:place], content(b"valuf-%d" % place), *VALUES[place + 1 :]]
    target = [batch(range(100 + at, 103 + at), changed[at : at + 3], codec=codec) for at in (0, 3, 6)]
    found = compared(Log(three(codec)), Log(target), ALL)
    assert (found.records, found.differing) == (8, 1)
    assert found.first == Difference(place, 100 + place, "key, value or headers differ")


def test_a_time_that_differs_is_a_difference_unless_the_log_stamps_its_own() -> None:
    source = [batch(range(3), VALUES[:3])]
    segments = [Segment(0, 3, 0)]
    later = compared(Log(source), Log([batch(range(3), VALUES[:3], time=1_001)]), segments)
    assert later.first == Difference(0, 0, "timestamps differ: 1000, 1001")
    stamped = compared(Log(source), Log([batch(range(3), VALUES[:3], log_time=True)]), segments)
    assert (stamped.records, stamped.differing) == (3, 0)
    other = compared(Log(source), Log([batch(range(3), VALUES[1:4], log_time=True)]), segments)
    assert other.differing == 3


def test_a_batch_that_fails_its_crc_is_a_difference_though_both_sides_hold_it() -> None:
    broken = bytearray(batch(range(3), VALUES[:3]))
    broken[-1] ^= 1
    found = compared(Log([bytes(broken)]), Log([bytes(broken)]), [Segment(0, 3, 0)])
    assert found.first == Difference(0, None, "a batch at the source fails its CRC")


# What the map has no place for ----------------------------------------------------------------------


def test_gaps_of_the_source_and_records_of_others_are_no_difference() -> None:
    marker = build(
        attributes=CONTROL,
        base_timestamp=0,
        max_timestamp=0,
        count=1,
        payload=bytes(encode([Record(0, 0, 0, VALUES[0])], codec=NONE)[61:]),
        base_offset=3,
    )
    source = [batch(range(3), VALUES[:3]), bytes(marker), batch(range(4, 9), VALUES[4:])]
    others = batch(range(103, 105), [content(b"of others")] * 2)
    target = [copied(source[0], 100), others, copied(source[2], 105)]
    found = compared(Log(source), Log(target), [Segment(0, 3, 100), Segment(4, 9, 105)])
    assert (found.records, found.others, found.differing) == (8, 2, 0)


def test_a_gap_within_a_batch_has_no_place() -> None:
    source = [batch(range(9), VALUES)]
    target = [batch(range(100, 104), VALUES[:4]), batch(range(104, 107), VALUES[6:], time=1_006)]
    found = compared(Log(source), Log(target), [Segment(0, 4, 100), Segment(6, 9, 104)])
    assert (found.records, found.differing) == (7, 0)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_record_that_one_side_alone_has_is_a_difference_unless_cleaners_are_at_work(side: str) -> None:
    full = [batch(range(3), VALUES[:3])]
    cleaned = [encode_with_times([0, 2], [VALUES[0], VALUES[2]], [1_000, 1_002])]
    logs = (Log(cleaned), Log(full)) if side == "source" else (Log(full), Log(cleaned))
    segments = [Segment(0, 3, 0)]
    found = compared(*logs, segments)
    assert (found.records, found.differing) == (2, 1)
    assert found.first == Difference(1, 1, f"the {side} has no record there")
    found = compared(*logs, segments, is_cleaned=True)
    assert (found.records, found.differing) == (2, 0)
    assert (found.source_only, found.target_only) == ((0, 1) if side == "source" else (1, 0))


def encode_with_times(offsets: Sequence[int], contents: Sequence[bytes], times: Sequence[int]) -> bytes:
    records = [Record(*parts) for parts in zip(offsets, times, [0] * len(times), contents, strict=True)]
    return bytes(encode(records, codec=NONE, with_offsets=True))


# By key ---------------------------------------------------------------------------------------------


def keyed(*records: tuple[int, bytes, bytes | None]) -> Log:
    return Log([batch([offset], [content(value, key)]) for offset, key, value in records])


def keys_found(source: Log, target: Log, mapped: int) -> tuple[tuple[int, int], Found]:
    found = Found()
    here, there = (
        last_of_keys(log, 0, 10, lambda offset: offset < mapped, found, lambda _size: None)
        for log in (source, target)
    )
    return compare_keys(here, there, found), found


def test_the_last_record_of_a_key_counts_whatever_cleaners_have_left() -> None:
    source = keyed((0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), (9, b"z", b"later"))
    target = keyed((1, b"b", b"1"), (2, b"a", b"2"), (9, b"y", b"of others"))
    counts, found = keys_found(source, target, 5)
    assert (counts, found.differing) == ((2, 0), 0)


def test_a_key_whose_last_records_differ_is_a_difference_and_a_tombstone_may_be_missing() -> None:
    source = keyed((0, b"a", b"1"), (1, b"b", None), (2, b"c", b"3"), (9, b"d", b"later"))
    target = keyed((0, b"a", b"x"), (2, b"c", b"3"), (3, b"d", b"4"), (9, b"c", b"of others"))
    counts, found = keys_found(source, target, 5)
    assert counts == (2, 2), "of c and d a side has later records"
    assert (found.differing, found.first) == (1, Difference(0, 0, "the last records of a key differ"))


# Many records ---------------------------------------------------------------------------------------


@dataclass
class Repeated:
    """A thousand batches of ten thousand records each, of which one may be another."""

    made: bytes
    other: bytes | None = None
    at: int = -1
    _EACH = 10_000

    def fetched(self, offset: int, *, min_bytes: int) -> Fetched:
        assert min_bytes
        return response(self._from(offset))

    def _from(self, offset: int) -> Iterator[bytes]:
        first = offset // self._EACH
        for number in range(first, min(first + 20, 1_000)):
            one = bytearray(self.other if number == self.at and self.other is not None else self.made)
            struct.pack_into(">q", one, 0, number * self._EACH)
            yield bytes(one)


def test_one_flipped_byte_in_ten_million_records_is_found() -> None:
    values = [content(b"%06d" % number) for number in range(Repeated._EACH)]
    made = batch(range(Repeated._EACH), values)
    values[4_321] = content(b"004320")
    flipped = batch(range(Repeated._EACH), values)
    assert sum(one != other for one, other in zip(made[61:], flipped[61:], strict=True)) == 1
    found = compared(Repeated(made), Repeated(made, flipped, 777), [Segment(0, 10_000_000, 0)])
    assert found.first == Difference(7_774_321, 7_774_321, "key, value or headers differ")
    assert (found.records, found.differing) == (9_999_999, 1)
