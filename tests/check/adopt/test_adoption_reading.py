"""Adopting leaves out of a source what the flow leaves out of it, and no more."""

from dataclasses import replace

import pytest

from ledger.adopt.reading import PartitionLog
from ledger.facts.syncs import GapCause
from ledger.topics.naming import KEEP_ALL, RecordFilter
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.copy_tasks import Bench

NOW_MS = 1_700_000_000_000
KEYS = [b"1", b"22", b"no", b"2", b"", b"12"]
FILTERS = [
    KEEP_ALL,
    RecordFilter(exclude_keys=("[0-9]*[02468]",)),
    RecordFilter(exclude_keys=(".*",)),
    RecordFilter(exclude_keys=("no", "1.*")),
]


@pytest.mark.parametrize("record_filter", FILTERS, ids=lambda each: ",".join(each.exclude_keys) or "all")
def test_what_a_flow_would_leave_out_is_left_out_when_it_is_adopted(record_filter: RecordFilter) -> None:
    bench = Bench()
    for keys in (KEYS[:4], KEYS[4:]):
        batch = application_batch([content(key, b"v") for key in keys], [NOW_MS] * len(keys))
        bench.source_log().append(batch, now_ms=NOW_MS)
    told = replace(bench.assignment(), record_filter=record_filter)
    [result] = bench.run(told)
    network = MemoryNetwork(bench.source, bench.target, bench.schedule, CalmWeather())
    network.source.refresh(["orders"])
    log = PartitionLog(
        network,
        network.source,
        bench.schedule,
        told.source,
        start=0,
        end=len(KEYS),
        mirror_producer_ids=frozenset(),
        record_filter=record_filter,
    )
    read = [(record.content, record.cause) for record in log.read(0)]
    copied = [record.content for record in bench.target_log().readable()]
    assert result.position.source_offset == len(read) == len(KEYS)
    assert [found for found, cause in read if cause is None] == copied
    assert {cause for _, cause in read} <= {None, GapCause.FILTERED}
