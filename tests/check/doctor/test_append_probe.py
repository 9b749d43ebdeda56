"""The probe of a target against links that do not compare: what they accept is told."""

import itertools
from collections.abc import Sequence

import pytest

from ledger.clock import SystemClock
from ledger.doctor.checks import Verdict
from ledger.doctor.cluster import SCRIPT, SENDS, compare_and_append
from ledger.doctor.probes import ProbeTopic
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.facts.syncs import TopicPartition, topic_id_bytes, topic_id_text
from ledger.kafka.batches import read_header
from ledger.kafka.copying import ClusterLink, Completion
from ledger.kafka.requests import Fetched, FetchItem, Produced, ProduceItem

TOPIC_ID = topic_id_text(bytes(range(16)))
NODE = 1


class CarelessLink:
    """Implements `ClusterLink`: a cluster that writes whatever arrives; `error` answers produce requests instead."""

    def __init__(self, *, error: int = 0) -> None:
        self.ends = {0: 0, 1: 0}
        self.error = error
        self.tickets = itertools.count(1)
        self.done: list[Completion] = []

    def leader(self, partition: TopicPartition) -> int | None:
        return NODE if partition.partition in self.ends else None

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        return 0 if partition.partition in self.ends else None

    def is_deleted(self, partition: TopicPartition) -> bool:
        return partition.partition not in self.ends

    def is_denied(self, partition: TopicPartition) -> bool:
        return partition.partition not in self.ends

    def refresh(self, topics: Sequence[str]) -> None:
        raise AssertionError(f"nothing moves here, nor do {topics}")

    def aside(self, node: int) -> int:
        raise AssertionError(f"one connection to {node} is enough")

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:
        assert (node, timeout_ms > 0) == (NODE, True)
        (item,) = items
        partition = item.partition.partition
        offset = self.ends[partition]
        self.ends[partition] += 0 if self.error else read_header(item.batch).count
        answer = Produced(topic_id_bytes(TOPIC_ID), partition, self.error, offset, None)
        return self._answered(Completion(next(self.tickets), produced=(answer,)))

    def fetch(
        self,
        node: int,
        items: Sequence[FetchItem],
        *,
        committed: bool,
        max_wait_ms: int,
        max_bytes: int,
        nearest: bool = False,
    ) -> int:
        assert (node, committed, max_wait_ms, max_bytes > 0, nearest) == (NODE, True, 0, True, False)
        (item,) = items
        end = self.ends[item.partition.partition]
        empty = memoryview(b"")
        answer = Fetched(topic_id_bytes(TOPIC_ID), item.partition.partition, 0, end, end, 0, (), empty, None)
        return self._answered(Completion(next(self.tickets), fetched=(answer,)))

    def _answered(self, completion: Completion) -> int:
        self.done.append(completion)
        return completion.ticket

    def produce_window(self, node: int) -> int:
        assert node == NODE
        return 5


class OneSide:
    """Implements `Network`: its target is the link; `broken` loses every answer."""

    def __init__(self, link: CarelessLink, *, broken: bool = False) -> None:
        self._link = link
        self._broken = broken

    @property
    def source(self) -> ClusterLink:
        raise AssertionError("a target is probed, no source is read")

    @property
    def target(self) -> ClusterLink:
        return self._link

    def poll(self, timeout_s: float) -> list[Completion]:
        assert timeout_s > 0
        done, self._link.done = self._link.done, []
        return [Completion(one.ticket, failure="connection lost") for one in done] if self._broken else done


def topic_on(network: OneSide) -> ProbeTopic:
    return ProbeTopic("t", TOPIC_ID, 2, network, (7, 8), SystemClock())


def test_a_target_that_accepts_everything_fails_with_each_thing_it_accepted() -> None:
    finding = compare_and_append("cluster west", topic_on(OneSide(CarelessLink())).appends(SENDS))
    assert finding.verdict is Verdict.FAILED
    assert (
        "the same batch again is answered with its first offset: wanted offset 0, got offset 3"
        in finding.measured
    )
    refusals = [expectation for expectation in SCRIPT if expectation.offset is None]
    assert finding.measured.count("wanted error 45") == len(refusals) == 4
    written = {partition: sum(s.count for s in SENDS if s.partition == partition) for partition in (0, 1)}
    assert f"partition 0 ends at {written[0]}, not at 7" in finding.measured
    assert f"partition 1 ends at {written[1]}, not at 5" in finding.measured


def test_a_target_that_refuses_everything_fails() -> None:
    finding = compare_and_append("cluster west", topic_on(OneSide(CarelessLink(error=45))).appends(SENDS))
    assert finding.verdict is Verdict.FAILED
    assert "a first batch is written: wanted offset 0, got error 45" in finding.measured
    assert "wanted error 45" not in finding.measured


def test_an_answer_that_is_lost_is_an_error_not_a_verdict() -> None:
    with pytest.raises(ClusterUnavailableError, match="connection lost"):
        topic_on(OneSide(CarelessLink(), broken=True)).appends(SENDS)


def test_a_clock_is_not_read_from_a_record_that_was_refused() -> None:
    with pytest.raises(ProtocolError, match="refused with error 47"):
        topic_on(OneSide(CarelessLink(error=47))).clocks()
