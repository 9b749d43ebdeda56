"""A partition whose acknowledgements take long holds up none but itself."""

from dataclasses import dataclass, replace

import pytest

from ledger.durations import BOUNDS_S, Durations
from ledger.facts.syncs import TopicPartition
from ledger.kafka.copying import Completion
from ledger.mirror.assignment import CopyLimits
from ledger.mirror.slow_partitions import SlowPartitions
from ledger.mirror.task import CopyTask
from tests.simulation.kafka.network import MemoryLink, MemoryNetwork
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.copy_tasks import Bench

SLOW, QUICK = 0, 1
LATE_S = 1.0
SECONDS = 10.0
LIMITS = CopyLimits(max_wait_ms=50, request_timeout_ms=10_000, drain_ms=100, merged_bytes=0)


class SlowLink(MemoryLink):
    """Its brokers acknowledge one partition late, and take up a connection's next request behind that."""

    def _answer(self, connection, request, answer: Completion) -> None:  # type: ignore[no-untyped-def]
        if any(part is not None and part.partition == SLOW for part in answer.produced):
            now = self._network.schedule.monotonic()
            connection.answered_at = max(connection.answered_at, now) + LATE_S
        super()._answer(connection, request, answer)


@dataclass
class SlowBench(Bench):
    def latencies(self, limits: CopyLimits) -> list[Durations]:
        """By partition, of a producer that writes a record to each every 20 ms."""
        self._write_in_turn()
        leaders = self.target.topic_by_name["orders"].leaders
        leaders[QUICK] = leaders[SLOW]
        network = MemoryNetwork(self.source, self.target, self.schedule, self.weather)
        network.target = SlowLink(self.target, network)
        assignments = [self.assignment(at, end_offset=1 << 40) for at in (SLOW, QUICK)]
        results = CopyTask(assignments, network, self.writers, self.schedule, limits).run(seconds=SECONDS)
        assert [result.stop for result in results] == [None, None]
        results.sort(key=lambda result: result.assignment.source.partition)
        return [result.latency or Durations() for result in results]

    def _write_in_turn(self) -> None:
        for partition in (SLOW, QUICK):
            now_ms = self.schedule.now_ms()
            batch = application_batch([content(b"k", b"v")], [now_ms])
            self.source_log(partition).append(batch, now_ms=now_ms)
        if self.schedule.monotonic() < SECONDS:
            self.schedule.after(0.02, self._write_in_turn)


def within(latency: Durations, seconds: float) -> float:
    counts = latency.counts[: BOUNDS_S.index(seconds) + 1]
    return sum(counts) / sum(latency.counts)


def test_a_slow_partition_holds_up_none_but_itself() -> None:
    slow, quick = SlowBench().latencies(LIMITS)
    assert within(slow, 0.5) == 0
    assert within(quick, 0.1) > 0.8


def test_without_that_all_would_wait_for_it() -> None:
    """So the broker of the test before does hold them up."""
    _, quick = SlowBench().latencies(replace(LIMITS, slow_ms=1 << 30))
    assert within(quick, 0.1) < 0.2


A, B = (TopicPartition("t", "an id", partition) for partition in (0, 1))


def answered(*seconds: tuple[float, float], known: SlowPartitions | None = None) -> SlowPartitions:
    found = known or SlowPartitions()
    for sent_at, now in seconds:
        found.answered(1, [A, B], sent_at=sent_at, now=now, slow_s=0.25)
    return found


@pytest.mark.parametrize(
    ("requests", "is_slow"),
    [
        ([(0.0, 0.01)], False),
        ([(0.0, 0.01), (1.0, 1.3)], True),
        ([(0.0, 0.01), (1.0, 1.3), (1.3, 1.31)], False),  # it is quick again
        ([(0.0, 0.01), (1.0, 1.2), (1.0, 1.3), (1.0, 1.4)], False),  # each had to wait for the one before
        ([(0.0, 0.4), (1.0, 1.5)], False),  # it is the line that is long
    ],
)
def test_slow_is_what_takes_longer_than_the_line(requests: list[tuple[float, float]], is_slow: bool) -> None:
    assert answered(*requests).holds(A) is is_slow


def test_those_of_a_slow_request_are_quick_again_one_by_one() -> None:
    found = answered((0.0, 0.01), (1.0, 2.0))
    found.answered(-2, [A], sent_at=2.0, now=2.01, slow_s=0.25)
    found.answered(-2, [B], sent_at=2.0, now=3.0, slow_s=0.25)
    assert (found.holds(A), found.holds(B)) == (False, True)
