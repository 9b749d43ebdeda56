"""Messages of versions 0 and 1 in what a broker answers: batches with their offsets, times, keys and values."""

import pytest
from kafka.record.legacy_records import LegacyRecordBatch

from ledger.errors import ProtocolError
from ledger.kafka.batches import batches, crc_matches, decode
from ledger.kafka.record_fields import read_fields
from ledger.kafka.requests import Fetched
from ledger.mirror.source import RecordRules, plan_batches
from ledger.mirror.steps import Copy
from tests.support.messages import message, wrapped

_ALONE = (message(1, 3, b"k", b"v", timestamp_ms=77), message(0, 4, None, b"v"), message(1, 9, b"k", None))
_STORED = {
    "messages": b"".join(_ALONE),
    "wrapped_1": wrapped(1, range(5, 25), timestamp_ms=1_000),
    "wrapped_0": wrapped(0, range(5, 25)),
    "cleaned_1": wrapped(1, [5, 8, 9, 20], timestamp_ms=1_000),
    "cleaned_0": wrapped(0, [5, 8, 9, 20]),
    "stamped": wrapped(1, [5, 6], stamped_ms=99),
    "between": _ALONE[0] + wrapped(1, [5, 8]) + message(1, 30, b"", b""),
}


def by_the_library(stored: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offsets, times, keys and values as kafka-python's own reader has them."""
    found, position = [], 0
    while position < len(stored):
        size = int.from_bytes(stored[position + 8 : position + 12], "big") + 12
        part = stored[position : position + size]
        for one in LegacyRecordBatch(part, part[16]):
            found.append((one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value))
        position += size
    return found


@pytest.mark.parametrize("stored", _STORED.values(), ids=_STORED)
def test_messages_are_batches_of_the_same_records(stored: bytes) -> None:
    found = []
    for header, batch in batches(memoryview(stored)):
        records = decode(header, batch)
        assert crc_matches(header, batch)
        assert header.magic in (0, 1)
        assert (header.base_offset, header.end_offset) == (records[0].offset, records[-1].offset + 1)
        assert header.max_timestamp == max(one.timestamp for one in records)
        for one in records:
            size = 0 if one.content[0] == 1 else one.content[0] // 2
            value = one.content[1 + size :]
            content = None if value[0] == 1 else bytes(value[1 : 1 + value[0] // 2])
            found.append((one.offset, one.timestamp, read_fields(one.content).key, content))
    assert found == by_the_library(stored)


def test_a_message_that_is_cut_off_is_left_out() -> None:
    whole, cut = _ALONE[0], _ALONE[1]
    for size in range(len(cut)):
        assert len(list(batches(memoryview(whole + cut[:size])))) == 1


@pytest.mark.parametrize("at", [17, 25, 35])
def test_a_damaged_message_is_refused(at: int) -> None:
    damaged = bytearray(_ALONE[0])
    damaged[at] ^= 0xFF
    with pytest.raises(ProtocolError, match="message at offset 3"):
        list(batches(memoryview(damaged)))


def test_messages_take_the_record_path() -> None:
    """What lies in the log are other bytes than those that are written."""
    stored = memoryview(_STORED["between"])
    fetched = Fetched("orders", 0, 0, 31, 31, 0, (), stored, None)
    rules = RecordRules(lambda _producer_id: False)
    steps = list(plan_batches(fetched, position=0, end_offset=None, rules=rules))
    copies = [step for step in steps if isinstance(step, Copy)]
    assert [(one.source_start, one.source_end, one.count, one.raw) for one in copies] == [
        (3, 4, 1, False),
        (5, 9, 2, False),
        (30, 31, 1, False),
    ]
    assert [(gap.source_start, gap.source_end) for gap in copies[1].gaps] == [(6, 8)]
