"""What a broker does with batches and reads (`Network`): the rules that simulated ones are built on.

Names of rules are those of `tests.simulation.kafka.partition_log`. B3 and B7 take a broker down: they have
tests of their own on real brokers.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import crc32c
import pytest

from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, batches
from ledger.kafka.cluster import ShutOutCluster
from ledger.kafka.copying import Completion, Network
from ledger.kafka.requests import ErrorCode, Fetched, FetchItem, Produced, ProduceItem
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.contracts.cluster_admin import Site
from tests.support.waiting import eventually, leading_node

CORRUPT_MESSAGE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 2, 53
NOW_MS = int(time.time() * 1000)
_ANSWERED_WITHIN_S = 20.0
_ENOUGH = 1 << 20


@dataclass(slots=True)
class Broker:
    """A client of a topic's leader at the target of a network."""

    site: Site
    network: Network
    at: TopicPartition = field(init=False)
    producer_id: int = field(init=False)

    def make_topic(self, **configuration: str) -> None:
        self.at = self.site.topic(partitions=1, **configuration)
        self.producer_id = self.site.admin.draw_producer_id()

    def produce(
        self, sequence: int, count: int = 2, *, epoch: int = 0, attributes: int = 0
    ) -> tuple[int, int]:
        """Error and base offset of a batch by the producer."""
        return self.produce_bytes(self.batch(sequence, count, epoch=epoch, attributes=attributes))

    def batch(self, sequence: int, count: int = 2, *, epoch: int = 0, attributes: int = 0) -> bytearray:
        return batch_of(self.producer_id, sequence, count, epoch=epoch, attributes=attributes)

    def produce_bytes(self, batch: bytes | bytearray) -> tuple[int, int]:
        item = ProduceItem(self.at, memoryview(bytearray(batch)))
        (answer,) = self._answer(
            lambda node: self.network.target.produce(node, [item], timeout_ms=5000)
        ).produced
        assert isinstance(answer, Produced)
        return answer.error, answer.base_offset

    def fetch(
        self, offset: int, *, committed: bool = True, max_bytes: int = _ENOUGH, last_epoch: int | None = None
    ) -> Fetched:
        item = FetchItem(self.at, offset, max_bytes, last_epoch)
        completion = self._answer(
            lambda node: self.network.target.fetch(
                node, [item], committed=committed, max_wait_ms=0, max_bytes=max_bytes
            )
        )
        (answer,) = completion.fetched
        assert isinstance(answer, Fetched)
        return answer

    def _answer(self, send: Callable[[int], int]) -> Completion:
        ticket = send(leading_node(self.network.target, self.at))
        until = time.monotonic() + _ANSWERED_WITHIN_S
        while time.monotonic() < until:
            for completion in self.network.poll(0.1):
                assert (completion.ticket, completion.failure) == (ticket, None)
                return completion
        raise AssertionError("no answer")


class BrokerContract:
    """Whoever inherits has the fixture `broker`."""

    @pytest.mark.parametrize(
        ("attributes", "error"),
        [
            (CONTROL, ErrorCode.INVALID_RECORD),
            (TRANSACTIONAL, TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            (0, ErrorCode.NONE),
        ],
    )
    def test_b1_attributes(self, broker: Broker, attributes: int, error: int) -> None:
        broker.make_topic()
        assert broker.produce(0, attributes=attributes)[0] == error
        assert broker.fetch(0, committed=False).high_watermark == (0 if error else 2)

    def test_b1_whose_time_it_is(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.produce(0, attributes=LOG_APPEND_TIME) == (0, 0)
        ((header, _batch),) = batches(broker.fetch(0).records)
        assert (header.has_log_append_time, header.max_timestamp) == (False, NOW_MS)

    def test_b1_a_topic_that_stamps_its_own_time(self, broker: Broker) -> None:
        broker.make_topic(message_timestamp_type="LogAppendTime")
        assert broker.produce(0, attributes=LOG_APPEND_TIME)[0] == ErrorCode.INVALID_TIMESTAMP
        assert broker.produce(0) == (0, 0)
        ((header, _batch),) = batches(broker.fetch(0).records)
        assert (header.has_log_append_time, header.base_timestamp) == (True, NOW_MS), (
            "the base is as it was sent"
        )

    def test_b1_bytes_counts_and_size(self, broker: Broker) -> None:
        broker.make_topic(max_message_bytes="90")
        broken, sparse = broker.batch(0), broker.batch(0)
        broken[-1] ^= 1
        assert broker.produce_bytes(broken)[0] == CORRUPT_MESSAGE
        sparse[26] = 4  # the low byte of lastOffsetDelta
        sparse[17:21] = crc32c.crc32c(bytes(sparse[21:])).to_bytes(4, "big")
        assert broker.produce_bytes(sparse)[0] == ErrorCode.INVALID_RECORD
        assert broker.produce(0, 9)[0] == ErrorCode.MESSAGE_TOO_LARGE
        assert broker.produce(0) == (0, 0)

    def test_b2_the_last_five_batches_are_known_and_nothing_may_be_left_out(self, broker: Broker) -> None:
        broker.make_topic()
        assert [broker.produce(n * 2) for n in range(6)] == [(0, n * 2) for n in range(6)]
        assert [broker.produce(n * 2) for n in range(1, 6)] == [(0, n * 2) for n in range(1, 6)]
        refused = {
            "the sixth back": (0, 2),
            "a hole": (14, 2),
            "another boundary": (10, 3),
            "an overlap": (11, 2),
        }
        for what, (sequence, count) in refused.items():
            assert broker.produce(sequence, count)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, what
        assert broker.fetch(0).high_watermark == 12

    def test_b2_without_state_any_sequence_is_taken_and_sequences_wrap(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.produce(2**31 - 1) == (0, 0)
        assert broker.produce(1) == (0, 2)

    def test_b2_epochs_of_a_producer(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.produce(0) == (0, 0)
        assert broker.produce(2, epoch=1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert broker.produce(0, epoch=1) == (0, 2)
        assert broker.produce(2)[0] == ErrorCode.INVALID_PRODUCER_EPOCH

    @pytest.mark.parametrize("is_known", [True, False])
    def test_b2_a_marker_shuts_earlier_epochs_out(self, broker: Broker, is_known: bool) -> None:
        """Whether the leader remembers the producer or not; it takes one offset, and leaves nothing open."""
        broker.make_topic()
        cluster = cast(ShutOutCluster, broker.site.admin)
        if is_known:
            assert broker.produce(0) == (0, 0)
        begin = 2 if is_known else 0
        known = cluster.producer_epochs([broker.at], broker.producer_id)
        assert known == ({broker.at: 0} if is_known else {})
        cluster.write_abort_markers([broker.at], producer_id=broker.producer_id, producer_epoch=1)
        assert cluster.producer_epochs([broker.at], broker.producer_id) == {broker.at: 1}
        assert broker.produce(begin)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
        ends = cluster.ends([(broker.at.topic, 0)])[(broker.at.topic, 0)]
        assert (ends.last_stable, ends.high_watermark) == (begin + 1, begin + 1)
        broker.producer_id += 1
        assert broker.produce(0) == (0, begin + 1), "another producer is not concerned"

    def test_b2_somebody_elses_records_between_do_not_disturb(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.produce(0) == (0, 0)
        broker.site.applications.write(broker.at.topic, 0, [NOW_MS])
        assert broker.produce(2) == (0, 3)
        assert broker.produce(0) == (0, 0)

    def test_b2_the_leader_tells_what_it_expects_next(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.site.admin.next_sequence(broker.at, broker.producer_id) is None
        broker.produce(5, 3)
        assert broker.site.admin.next_sequence(broker.at, broker.producer_id) == 8
        remembered = broker.site.admin.remembered_producer(broker.at, broker.producer_id)
        assert remembered is not None
        assert remembered.last_timestamp_ms == NOW_MS
        assert broker.site.admin.remembered_producer(broker.at, broker.producer_id + 1) is None

    def test_b4_committed_readers_wait_for_the_first_open_transaction(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.produce(0) == (0, 0)
        commit = broker.site.applications.begin_transaction(broker.at.topic, 0, records=3)
        assert broker.produce(2) == (0, 5)
        held = broker.fetch(0)
        assert (held.last_stable, held.high_watermark) == (2, 7)
        assert _offsets(held) == [0]
        assert _offsets(broker.fetch(0, committed=False)) == [0, 2, 5]
        commit()
        until = time.monotonic() + _ANSWERED_WITHIN_S
        while (ended := broker.fetch(0)).last_stable < 8:
            assert time.monotonic() < until, "the transaction does not end"
        assert (ended.last_stable, ended.high_watermark, ended.aborted or ()) == (8, 8, ())
        assert _offsets(ended) == [0, 2, 5, 7], "the marker is a batch too"

    def test_b5_a_read_begins_with_a_whole_batch_and_may_end_with_a_cut_one(self, broker: Broker) -> None:
        broker.make_topic()
        broker.produce(0)
        broker.produce(2)
        size = len(broker.batch(0))
        assert len(broker.fetch(1, max_bytes=1).records) == size, "whole, whatever was asked for"
        assert _offsets(broker.fetch(1)) == [0, 2], "from the batch that holds the offset"
        cut = broker.fetch(0, max_bytes=size + 9)
        assert len(cut.records) in (size, size + 9)
        assert len(broker.fetch(4).records) == 0
        assert broker.fetch(5).error == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_b6_an_epoch_to_come_is_out_of_range(self, broker: Broker) -> None:
        broker.make_topic()
        broker.produce(0)
        (epoch,) = {header.leader_epoch for header, _batch in batches(broker.fetch(0).records)}
        assert _offsets(broker.fetch(2, last_epoch=epoch)) == []
        assert broker.fetch(2, last_epoch=epoch).error == ErrorCode.NONE
        assert broker.fetch(2, last_epoch=epoch + 1).error == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_another_life_of_a_topic_takes_and_gives_nothing(self, broker: Broker) -> None:
        broker.make_topic()
        assert broker.produce(0) == (0, 0)
        former = broker.at
        broker.site.admin.delete_topic(former.topic, topic_id=former.topic_id)
        broker.make_topic()

        def is_former_deleted() -> bool:
            broker.network.target.refresh([former.topic])
            return broker.network.target.is_deleted(former)

        eventually(is_former_deleted, "the cluster says that the name is another topic's")
        assert not broker.network.target.is_deleted(broker.at)
        assert broker.produce(0) == (0, 0)


def batch_of(
    producer_id: int, sequence: int, count: int, *, epoch: int = 0, attributes: int = 0
) -> bytearray:
    """A batch of so many records by a producer."""
    contents = [content(b"k", b"%d" % sequence)] * count
    producer = Producer(producer_id, epoch, sequence)
    batch = application_batch(contents, [NOW_MS] * count, attributes=attributes, producer=producer)
    return bytearray(batch.encoded())


def _offsets(fetched: Fetched) -> Sequence[int]:
    """Base offsets of the whole batches that were read."""
    return [header.base_offset for header, _batch in batches(fetched.records)]
