"""`doctor --probe` at a target: topics of its own, raw produce requests, and the topics' deletion.

The requests go over the same connections as the copy's, so what is shown holds for the copy.
"""

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.kafka.admin.topic_requests import delete_topic_by_name
from ledger.adapters.kafka.network.kafka_network import KafkaNetwork
from ledger.config.cluster import ClusterConfig
from ledger.doctor.measurements import (
    Answer,
    AppendObservation,
    ClockObservation,
    ProbeTopic,
    Send,
)
from ledger.domain.facts import TopicPartition
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.ports.clock import Clock
from ledger.ports.network import Completion, FetchItem, Network, ProduceItem, answer_to
from ledger.wire.error_codes import TOPIC_GONE, TRANSIENT
from ledger.wire.record_batch import patch_for_target, read_header
from ledger.wire.records import Record, encode

PREFIX = "mirror-ledger-probe-"
SUFFIX = "-internal"  # no flow, and no MirrorMaker, selects such a topic
APPEND_PARTITIONS = 2
TIMEOUT_S = 9.0
_REPEAT_S = 0.1
_FETCH_BYTES = 4096
_NO_CODEC = 0
_EMPTY_RECORD = bytes((1, 2, 48, 0))  # no key, the value `0`, no headers
_NOT_YET = TRANSIENT | TOPIC_GONE
_ONE_REPLICA = {"min.insync.replicas": "1"}


class KafkaTargetProbe:
    """Implements `measurements.TargetProbe`."""

    def __init__(self, cluster: ClusterConfig, clock: Clock, environ: Mapping[str, str] = os.environ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._admin = KafkaAdmin(cluster.name, cluster, clock, timeout_s=TIMEOUT_S, environ=environ)

    def close(self) -> None:
        self._admin.close()

    @contextmanager
    def compare_and_append(self) -> Iterator[ProbeTopic]:
        with self._topic(APPEND_PARTITIONS, {"message.timestamp.type": "CreateTime"}) as topic:
            yield topic

    @contextmanager
    def clock(self, brokers: int) -> Iterator[ProbeTopic]:
        with self._topic(brokers, {"message.timestamp.type": "LogAppendTime"}) as topic:
            yield topic

    @contextmanager
    def _topic(self, partitions: int, settings: Mapping[str, str]) -> Iterator["LinkedTopic"]:
        """One replica each: with as many partitions as brokers, every broker leads one."""
        name = f"{PREFIX}{uuid.uuid4().hex[:12]}{SUFFIX}"
        network = KafkaNetwork(self._cluster, self._cluster, request_timeout_s=TIMEOUT_S)
        try:
            self._admin.create_topic(
                name, partitions=partitions, replication_factor=1, configuration={**_ONE_REPLICA, **settings}
            )
            topic_id = self._admin.topics()[name].topic_id
            network.target.refresh([name])
            producer_ids = (self._admin.allocate_producer_id(), self._admin.allocate_producer_id())
            yield LinkedTopic(name, topic_id, partitions, network, producer_ids, self._clock)
        finally:
            network.close()
            self._delete(name)

    def _delete(self, name: str) -> None:
        """Delete the topic and wait until no broker that is asked knows it. One that was never made is fine."""
        operation = f"delete the probe's topic {name}, which is to be deleted by hand"
        self._admin.connection.run(operation, delete_topic_by_name, name, timeout_ms=int(TIMEOUT_S * 1000))
        deadline = time.monotonic() + TIMEOUT_S
        while name in self._admin.topics():
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(
                    f"the probe's topic {name} was deleted but is still described; check again"
                )
            time.sleep(_REPEAT_S)


@dataclass(frozen=True, slots=True)
class LinkedTopic:
    """A probe's topic behind a copy's network: `producer_ids` are the mirror's own and another one."""

    name: str
    topic_id: str
    partitions: int
    network: Network
    producer_ids: tuple[int, int]
    clock: Clock

    def appends(self, script: Sequence[Send]) -> AppendObservation:
        answers = tuple(self._answer(send) for send in script)
        ends = {partition: self._end(partition) for partition in range(self.partitions)}
        return AppendObservation(self.name, answers, ends)

    def clocks(self) -> Sequence[ClockObservation]:
        return [self._clock_of(partition) for partition in range(self.partitions)]

    def _clock_of(self, partition: int) -> ClockObservation:
        """The first record only warms the connection up; the second one's round trip bounds the clock."""
        self._answer(Send(partition, 0, 1))
        sent_ms = self.clock.now_ms()
        answer = self._answer(Send(partition, 1, 1))
        answered_ms = self.clock.now_ms()
        if answer.error:
            raise ProtocolError(f"a record for {self.name}/{partition} was refused with error {answer.error}")
        stamped_ms = self._stamp(partition, answer.base_offset)
        return ClockObservation(self._leader(partition), sent_ms, stamped_ms, answered_ms)

    def _answer(self, send: Send) -> Answer:
        """The broker's answer; a leader that is not ready is asked again."""
        deadline = self.clock.monotonic() + TIMEOUT_S
        while True:
            item = ProduceItem(self._partition(send.partition), self._batch(send))
            ticket = self.network.target.produce(
                self._leader(send.partition), [item], timeout_ms=int(TIMEOUT_S * 1000)
            )
            produced = self._answered(ticket).produced[0]
            if produced is None:
                raise ProtocolError(f"an answer leaves out {self.name}/{send.partition}")
            if produced.error not in _NOT_YET or self.clock.monotonic() > deadline:
                return Answer(produced.error, produced.base_offset)
            time.sleep(_REPEAT_S)
            self.network.target.refresh([self.name])

    def _batch(self, send: Send) -> memoryview:
        now_ms = self.clock.now_ms()
        records = [Record(delta, now_ms, 0, _EMPTY_RECORD) for delta in range(send.count)]
        batch = memoryview(encode(records, codec=_NO_CODEC))
        producer_id = self.producer_ids[0 if send.own else 1]
        patch_for_target(batch, _NO_CODEC, producer_id=producer_id, sequence=send.sequence)
        return batch

    def _end(self, partition: int) -> int:
        return self._fetch(partition, 0)[0]

    def _stamp(self, partition: int, offset: int) -> int:
        return read_header(self._fetch(partition, offset)[1]).max_timestamp

    def _fetch(self, partition: int, offset: int) -> tuple[int, memoryview]:
        """High watermark and records from an offset on."""
        items = [FetchItem(self._partition(partition), offset, _FETCH_BYTES)]
        leader = self._leader(partition)
        ticket = self.network.target.fetch(
            leader, items, committed=True, max_wait_ms=0, max_bytes=_FETCH_BYTES
        )
        fetched = self._answered(ticket).fetched[0]
        if fetched is None or fetched.error:
            raise ProtocolError(f"{self.name}/{partition} cannot be read back at {offset}: {fetched}")
        return fetched.high_watermark, fetched.records

    def _answered(self, ticket: int) -> Completion:
        completion = answer_to(ticket, self.network)
        if completion.failure:
            raise ClusterUnavailableError(f"a probe of {self.name} failed: {completion.failure}")
        return completion

    def _leader(self, partition: int) -> int:
        leader = self.network.target.leader(self._partition(partition))
        if leader is None:
            raise ClusterUnavailableError(f"{self.name}/{partition} has no leader")
        return leader

    def _partition(self, partition: int) -> TopicPartition:
        return TopicPartition(self.name, self.topic_id, partition)
