"""Batches that unpack to more than a worker has memory for: met before they are unpacked, or copied as they are."""

import resource
from dataclasses import replace

import pytest

from ledger.errors import ProtocolError, UnpackedSizeError
from ledger.kafka import codecs
from ledger.kafka.codecs import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from ledger.mirror.assignment import StopCause
from ledger.topics.naming import RecordFilter
from tests.simulation.kafka.stored_batches import StoredBatch, application_batch, content
from tests.support.copy_tasks import NOW_MS, Bench, cause

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
MOST = 200_000


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MOST_UNPACKED_BYTES", MOST)
    monkeypatch.setattr(codecs, "_PIECE_BYTES", 10_000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 60_000, 70_000, MOST])
def test_what_is_not_too_much_is_as_it_was(codec: int, size: int) -> None:
    data = bytes(n * n % 251 for n in range(size))
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [MOST + 20_000, 300 * MOST])
def test_too_much_is_met_before_it_takes_memory(codec: int, size: int) -> None:
    packed = compress(codec, bytes(size))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnpackedSizeError, match="unpacks to more than"):
        decompress(codec, packed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "kB"


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_broken_is_not_called_too_large(codec: int) -> None:
    packed = compress(codec, bytes(n % 251 for n in range(100_000)))
    with pytest.raises(ProtocolError) as raised:
        decompress(codec, packed[: len(packed) // 2])
    assert not isinstance(raised.value, UnpackedSizeError)


def large(codec: int) -> StoredBatch:
    small = application_batch([content(b"k", bytes(MOST // 2))] * 3, [NOW_MS] * 3)
    return replace(small, attributes=codec)


def written(codec: int, *, behind: int = 2) -> Bench:
    bench = Bench()
    bench.write(2)
    bench.source_log().append(large(codec), now_ms=NOW_MS)
    bench.write(behind)
    bench.write(5, partition=1)
    return bench


@pytest.mark.parametrize("codec", CODECS)
def test_as_it_is_it_is_copied(codec: int) -> None:
    bench = written(codec)
    [result] = bench.run(bench.assignment(), partition_fetch_bytes=1 << 20)
    assert (cause(result), bench.target_log().end) == (None, 7)
    copied = [bytes(batch[61:]) for _, batch in bench.target_log().batches()]
    assert copied == [bytes(batch[61:]) for _, batch in bench.source_log().batches()]


@pytest.mark.parametrize("codec", CODECS)
def test_by_records_it_stops_its_partition_with_its_size(codec: int) -> None:
    bench = written(codec)
    filtering = replace(bench.assignment(), record_filter=RecordFilter(from_ms=NOW_MS))
    [stopped, other] = bench.run(filtering, bench.assignment(1), partition_fetch_bytes=1 << 20)
    assert (cause(stopped), bench.target_log().end) == (StopCause.TOO_LARGE, 2)
    assert (cause(other), bench.is_copied(1)) == (None, True)
    assert stopped.stop is not None
    assert "the batch at offset 2, of " in stopped.stop.message
    assert stopped.stop.message.endswith("behind it lies offset 5")


@pytest.mark.parametrize("before", [0, 40])
def test_where_its_size_is_refused_it_is_refused_as_a_whole(before: int) -> None:
    """Also where another one was cut before."""
    bench = Bench()
    bench.target_log().max_message_bytes = 500
    if before:
        bench.write(before)
    bench.source_log().append(large(ZSTD), now_ms=NOW_MS)
    bench.target_log().max_message_bytes = min(500, len(large(ZSTD).encoded()) - 1)
    [result] = bench.run(bench.assignment(), partition_fetch_bytes=1 << 20)
    assert (cause(result), bench.target_log().end) == (StopCause.REFUSED, before)
    assert result.stop is not None
    assert f"skip-to with --offset {before + 3} " in result.stop.message
