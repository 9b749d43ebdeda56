"""The real loss of failovers lies within the range that was estimated, whoever saw the source last: seeded lives.

The oracle is what producers wrote and what a driver had written at the target, whether or not anybody recorded it.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from ledger.changeover.losses import loss_figures, losses
from ledger.errors import ClusterUnavailableError
from ledger.kafka.cluster import GroupListing, PartitionEnds, TopicDescription
from ledger.recorders.recorder import ClusterRecorder
from ledger.store.catalog import Value, query
from ledger.store.sql import run_query
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import SETTINGS, FakeClock, FakeCluster, FakeProcesses
from tests.support.ledger_rows import row

PARTITIONS, INTERVAL_S, TICK_S, ROUND_S = 2, 10.0, 0.5, 3.0
RATES = (0, 3, 20, 60)
"""Records a second, of each partition."""
PLACES = [("orders", number) for number in range(PARTITIONS)]


class Source(FakeCluster):
    """`last_request`: it is lost while it is asked for its groups the next time, and this happens before."""

    is_lost = False
    last_request: Callable[[], None] | None = None

    def topics(self) -> dict[str, TopicDescription]:
        self._answer()
        return super().topics()

    def groups(self) -> list[GroupListing]:
        if self.last_request is not None:
            self.last_request()
            self.is_lost, self.last_request = True, None
        self._answer()
        return super().groups()

    def _answer(self) -> None:
        if self.is_lost:
            raise ClusterUnavailableError("east could not be reached: refused")


@dataclass
class Life:
    """A source that is written to, a recorder of it, a driver that copies and records, each until it is stopped."""

    choices: random.Random
    clock: FakeClock = field(default_factory=FakeClock)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    written: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    copied: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    recorded: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    is_recorded: bool = True
    is_copied: bool = True
    rates: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    _round: int = 0
    _next_round_s: float = 0.0

    def __post_init__(self) -> None:
        self.source = Source()
        self.source.add_topic("orders", "id-1", partitions=PARTITIONS)
        claim = {
            **{"event": "claimed", "source_cluster": "east", "target_cluster": "west", "writer": "flow:f"},
            **{"source_cluster_id": self.source.kafka_id, "target_cluster_id": "west-id"},
        }
        self.ledger.append("writers", [row("writers", flow="f", **claim)])
        self.recorder = ClusterRecorder(
            self.source,
            MemoryFactLog(self.ledger, self.clock),
            MemoryLedgerState(self.ledger),
            self.clock,
            SETTINGS,
            partitions=lambda: PLACES,
            processes=FakeProcesses(),
        )
        self._put_ends()
        self.recorder.take_role()

    def _put_ends(self) -> None:
        for at, end in zip(PLACES, self.written, strict=True):
            self.source.ends_now[at] = PartitionEnds(0, int(end), int(end), 0)

    def passes(self, seconds: float, rates: Sequence[int] = RATES) -> None:
        """Rates change every few seconds, each partition's by itself."""
        left = 0.0
        for _ in range(int(seconds / TICK_S)):
            if left <= 0:
                self.rates = [self.choices.choice(rates) for _ in PLACES]
                left = self.choices.uniform(2, 30)
            left -= TICK_S
            self.clock.now_s += TICK_S
            self._tick()

    def is_lost_after(self, seconds: float) -> None:
        """The source, at once; or within the read of its groups that comes next, which takes so long."""
        if not seconds:
            self.source.is_lost = True
            return
        self.source.last_request = partial(self._write_for, seconds)
        while not self.source.is_lost:
            self.passes(TICK_S, [max(RATES)])

    def _write_for(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.written = [end + rate * seconds for end, rate in zip(self.written, self.rates, strict=True)]
        self._put_ends()

    def _tick(self) -> None:
        if not self.source.is_lost:
            self.written = [end + rate * TICK_S for end, rate in zip(self.written, self.rates, strict=True)]
            self._put_ends()
        if self.is_copied:
            if not self.source.is_lost:
                self.copied = [int(end) for end in self.written]
            if self.clock.now_s >= self._next_round_s:
                self._next_round_s = self.clock.now_s + ROUND_S
                self._record_copies()
        if self.is_recorded:
            with suppress(ClusterUnavailableError):
                self.recorder.record_due()

    def _record_copies(self) -> None:
        self._round += 1
        made = []
        for (topic, partition), start, end in zip(PLACES, self.recorded, self.copied, strict=True):
            if start < end:
                ranges = {"source_start": start, "source_end": end, "target_start": start, "target_end": end}
                where = {"source_topic": topic, "source_topic_id": "id-1", "source_partition": partition}
                there = {"target_topic": topic, "target_topic_id": "id-w", "target_partition": partition}
                way = {"flow": "f", "writer": "flow:f", "source_cluster": "east", "target_cluster": "west"}
                stamp = {"round": self._round, "recorded_at_ms": self.clock.now_ms(), "writer_epoch": 1}
                values = {**ranges, **where, **there, **way, **stamp}
                made.append(row("offset_syncs", kind="copied", records=end - start, **values))
        if made:
            self.ledger.append("offset_syncs", made)
            self.recorded = list(self.copied)

    def estimate(self) -> dict[str, Any]:
        """As a plan has it, which reads the target."""
        params: dict[str, Value] = {
            **{"from_cluster": "east", "to_cluster": "west"},
            **{"at_ms": self.clock.now_ms()},
        }
        rows = run_query(query("failover_loss"), params, self.ledger.at(self.ledger.latest())).to_pylist()
        held = {
            ("f", topic, partition): there - known
            for (topic, partition), there, known in zip(PLACES, self.copied, self.recorded, strict=True)
        }
        return loss_figures(losses(rows, None, held))

    @property
    def lost(self) -> int:
        return sum(int(end) - there for end, there in zip(self.written, self.copied, strict=True))


def lived(seed: int) -> Life:
    """Some minutes, with the highest rate for a while in each of the last five."""
    life = Life(random.Random(seed))
    life.passes(30)
    life.passes(25, [max(RATES)])
    life.passes(life.choices.uniform(5, 120))
    return life


@pytest.mark.parametrize("seed", range(12))
def test_a_source_whose_end_a_recorder_sees_loses_what_the_range_says(seed: int) -> None:
    """Its driver goes on, was frozen or killed before; the range is no wider than what an interval brings."""
    life = lived(seed)
    life.is_copied = seed % 3 == 0
    took_s = life.choices.uniform(1, 4) if seed % 2 else 0.0
    life.passes(life.choices.uniform(0, 40), [max(RATES)] if took_s else RATES)
    life.is_lost_after(took_s)
    life.passes(life.choices.uniform(2, 300))
    found = life.estimate()
    least, most = found["records_at_least"], found["records_at_most"]
    print(f"seed {seed}: {life.lost} lost, {least} to {most}")
    assert least <= life.lost <= most
    assert most - least <= max(least, max(RATES) * PARTITIONS * (INTERVAL_S + took_s + 2 * TICK_S))


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_source_that_nobody_saw_go_loses_no_more_than_came_since_the_last_reading(seed: int) -> None:
    life = lived(seed)
    life.is_recorded = False
    life.passes(life.choices.uniform(0, 20))
    life.is_copied = seed % 3 == 0
    life.passes(life.choices.uniform(0, 20))
    life.source.is_lost, life.is_copied = True, False
    life.passes(life.choices.uniform(0, 5))
    found = life.estimate()
    least, most = found["records_at_least"], found["records_at_most"]
    print(f"seed {seed}: {life.lost} lost, {least} to {most}")
    assert least <= life.lost <= most
    assert most - least <= max(RATES) * PARTITIONS * (found["unseen_seconds"] + TICK_S)


def test_a_pause_does_not_thin_the_rate() -> None:
    """Nothing for a minute, then a burst of a second: it came within one interval, not within the minute."""
    life = Life(random.Random(1))
    life.passes(12, [0])
    life.passes(60, [0])
    life.passes(1, [60])
    life.passes(12, [0])
    [first, _] = run_query(
        query("failover_loss"),
        {"from_cluster": "east", "to_cluster": "west"},
        life.ledger.at(life.ledger.latest()),
    ).to_pylist()
    assert first["rate_per_second"] >= 60 / (INTERVAL_S + TICK_S)


def test_readings_without_a_change_are_a_basis_and_a_single_one_is_none() -> None:
    life = Life(random.Random(1))
    life.passes(1, [20])
    assert life.estimate()["records_at_most"] is None
    life.passes(25, [0])
    found = life.estimate()
    assert (found["records_at_most"], found["partitions_without_rate"]) != (None, PARTITIONS)
