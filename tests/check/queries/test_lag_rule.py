"""Lag of flows that go both ways, against what the source really holds that is to be copied."""

import pytest

from ledger.facts.syncs import SyncCause
from ledger.store import catalog
from ledger.store.sql import run_query
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row
from tests.support.two_way import THERE, TwoWays, lived, topic_of

LIVES = 60
MUCH_LATER_MS = 10**12


def lag_by_life(lives: list[TwoWays]) -> dict[str, int]:
    """Lag that the ledger tells, by topic, when all that was recorded counts."""
    ledger = MemoryLedger()
    ledger.append("writers", [row("writers", event="claimed", flow=THERE, source_cluster="east")])
    for number, life in enumerate(lives):
        ends = row(
            "high_watermarks",
            cluster="east",
            topic=topic_of(number),
            topic_id=f"east-id-{number}",
            last_stable=life.east.end,
            high_watermark=life.east.end,
            read_at_ms=MUCH_LATER_MS,
        )
        ledger.append("offset_syncs", life.rows(number)["offset_syncs"])
        ledger.append("high_watermarks", [ends])
    answer = run_query(catalog.query("replication_lag"), {"flow": THERE}, ledger.at(ledger.latest()))
    return {found["source_topic"]: found["lag_records"] for found in answer.to_pylist()}


@pytest.mark.parametrize("is_two_way", [True, False], ids=["both-ways", "one-way"])
def test_lag_counts_what_is_to_be_copied(is_two_way: bool) -> None:
    """Never less. More only where the other flow's copies are left of what its source took back."""
    lives = [lived(seed, is_two_way=is_two_way) for seed in range(LIVES)]
    told = lag_by_life(lives)
    left_out = 0
    for number, life in enumerate(lives):
        behind = life.east.records[life.there.source_end :]
        to_copy = sum(not record.is_mirrored for record in behind)
        left_out += len(behind) - to_copy
        lag = told[topic_of(number)]
        if SyncCause.SOURCE_TRUNCATED in {recorded.sync.cause for recorded in life.back.recorded}:
            assert to_copy <= lag <= len(behind), number
        else:
            assert lag == to_copy, number
    assert (left_out > LIVES) == is_two_way, "copies by the other flow are in the way"
