"""Fetch and Produce against kafka-python's own encoders and decoders."""

import struct
import uuid
from typing import NamedTuple, TypedDict, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from ledger.facts.syncs import TopicPartition, topic_id_bytes, topic_id_text
from ledger.kafka.requests import (
    FetchItem,
    ProduceItem,
    fetch_request,
    parse_fetch_response,
    parse_produce_response,
    produce_request,
)


class TopicRef(NamedTuple):
    """How requests name a topic."""

    name: str
    topic_id: bytes


PRINTED = settings(print_blob=True, deadline=None)
FETCH_VERSIONS = {False: 12, True: 13}
PRODUCE_VERSIONS = {False: 9, True: 13}
both_ways = pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])
int32 = st.integers(-1, 2**31 - 1)
int64 = st.integers(-1, 2**63 - 1)
errors = st.integers(-1, 120)
records = st.none() | st.binary(max_size=300)
topics = st.builds(
    TopicRef,
    st.text(st.sampled_from("abz09._-"), min_size=1, max_size=200),
    st.uuids().map(lambda value: value.bytes),
)


def at(topic: TopicRef, partition: int) -> TopicPartition:
    return TopicPartition(topic.name, topic_id_text(topic.topic_id), partition)


Item = TypeVar("Item", FetchItem, ProduceItem)


def by_topic(items: list[Item]) -> list[tuple[TopicRef, list[Item]]]:
    """Items under their topic, topics in the order of their first item: as requests group them."""
    grouped: dict[TopicRef, list[Item]] = {}
    for item in items:
        topic = TopicRef(item.partition.topic, topic_id_bytes(item.partition.topic_id))
        grouped.setdefault(topic, []).append(item)
    return list(grouped.items())


def named(by_id: bool, topic: TopicRef) -> str | uuid.UUID:
    return uuid.UUID(bytes=topic.topic_id) if by_id else topic.name


def named_in(by_id: bool, decoded: DataContainer, name: str) -> object:
    return getattr(decoded, "topic_id" if by_id else name)


@both_ways
@PRINTED
@given(data=st.data())
def test_a_fetch_request_says_what_was_meant(by_id: bool, data: st.DataObject) -> None:
    refs = data.draw(
        st.lists(topics, min_size=1, max_size=3, unique_by=(lambda t: t.name, lambda t: t.topic_id))
    )
    partitions = st.builds(at, st.sampled_from(refs), int32)
    epochs = st.none() | int32
    items = data.draw(st.lists(st.builds(FetchItem, partitions, int64, int32, epochs, epochs), max_size=6))
    limits: dict[str, int] = {
        "max_wait_ms": data.draw(int32),
        "min_bytes": 1,
        "max_bytes": data.draw(int32),
        "isolation_level": 1,
    }
    rack = data.draw(st.text(max_size=9))
    framed = fetch_request(items, correlation_id=77, by_id=by_id, rack=rack, **limits)
    assert struct.unpack_from(">i", framed)[0] == len(framed) - 4
    decoded = FetchRequest[FETCH_VERSIONS[by_id]].decode(framed[4:], header=True)
    assert (decoded.header.correlation_id, decoded.header.client_id) == (77, "mirror-ledger")
    assert (decoded.header.request_api_key, decoded.header.request_api_version) == (1, FETCH_VERSIONS[by_id])
    assert {name: getattr(decoded, name) for name in limits} == limits
    assert (decoded.replica_id, decoded.session_id, decoded.session_epoch) == (-1, 0, -1)
    assert (decoded.forgotten_topics_data, decoded.rack_id) == ([], rack)
    found = [
        (named_in(by_id, topic, "topic"), [_fetch_values(p) for p in topic.partitions])
        for topic in decoded.topics
    ]
    assert found == [
        (
            named(by_id, topic),
            [
                (
                    i.partition.partition,
                    -1 if i.leader_epoch is None else i.leader_epoch,
                    i.offset,
                    -1 if i.last_epoch is None else i.last_epoch,
                    -1,
                    i.max_bytes,
                )
                for i in group
            ],
        )
        for topic, group in by_topic(items)
    ]


def _fetch_values(partition: DataContainer) -> tuple[int, ...]:
    return (
        partition.partition,
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.log_start_offset,
        partition.partition_max_bytes,
    )


@both_ways
@PRINTED
@given(data=st.data())
def test_a_produce_request_says_what_was_meant(by_id: bool, data: st.DataObject) -> None:
    refs = data.draw(
        st.lists(topics, min_size=1, max_size=3, unique_by=(lambda t: t.name, lambda t: t.topic_id))
    )
    item = st.builds(
        ProduceItem, st.builds(at, st.sampled_from(refs), int32), st.binary(max_size=300).map(memoryview)
    )
    items = data.draw(st.lists(item, max_size=6))
    buffers = produce_request(items, correlation_id=5, by_id=by_id, timeout_ms=1_234)
    framed = b"".join(bytes(buffer) for buffer in buffers)
    assert struct.unpack_from(">i", framed)[0] == len(framed) - 4
    decoded = ProduceRequest[PRODUCE_VERSIONS[by_id]].decode(framed[4:], header=True)
    assert (decoded.header.request_api_key, decoded.header.correlation_id) == (0, 5)
    assert (decoded.transactional_id, decoded.acks, decoded.timeout_ms) == (None, -1, 1_234)
    found = [
        (named_in(by_id, topic, "name"), [(p.index, bytes(p.records)) for p in topic.partition_data])
        for topic in decoded.topic_data
    ]
    assert found == [
        (named(by_id, topic), [(i.partition.partition, bytes(i.batch)) for i in group])
        for topic, group in by_topic(items)
    ]


def test_batches_are_not_copied_into_a_produce_request() -> None:
    batch = memoryview(bytearray(b"a batch"))
    item = ProduceItem(at(TopicRef("orders", bytes(16)), 0), batch)
    assert any(
        buffer is batch for buffer in produce_request([item], correlation_id=1, by_id=True, timeout_ms=1)
    )


def response_body(response: DataContainer, version: int) -> memoryview:
    """As it stands after the correlation id: the header's empty tags, then the body."""
    return memoryview(b"\x00" + bytes(response.encode(version=version)))


class FetchedValues(TypedDict):
    """What a broker answers for one partition of a fetch, as kafka-python names it."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: tuple[int, int] | None
    current_leader: tuple[int, int] | None
    aborted_transactions: list[tuple[int, int]] | None
    preferred_read_replica: int
    records: bytes | None


@st.composite
def fetched_partitions(draw: st.DrawFn) -> FetchedValues:
    aborted = st.none() | st.lists(st.tuples(int64, int64), max_size=4)
    return {
        "partition_index": draw(int32),
        "error_code": draw(errors),
        "high_watermark": draw(int64),
        "last_stable_offset": draw(int64),
        "log_start_offset": draw(int64),
        "diverging_epoch": draw(st.none() | st.tuples(int32, st.integers(0, 2**63 - 1))),
        "current_leader": draw(st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9))),
        "aborted_transactions": draw(aborted),
        "preferred_read_replica": draw(int32),
        "records": draw(records),
    }


@both_ways
@PRINTED
@given(
    error=errors,
    throttle=int32,
    answered=st.lists(st.tuples(topics, st.lists(fetched_partitions(), max_size=3)), max_size=3),
)
def test_a_fetch_response_is_read_as_it_was_written(
    by_id: bool, error: int, throttle: int, answered: list[tuple[TopicRef, list[FetchedValues]]]
) -> None:
    version = FETCH_VERSIONS[by_id]
    topic_type = FetchResponse.FetchableTopicResponse
    responses = [
        topic_type(
            topic=topic.name,
            topic_id=uuid.UUID(bytes=topic.topic_id),
            partitions=[_partition_data(values) for values in partitions],
        )
        for topic, partitions in answered
    ]
    response = FetchResponse(throttle_time_ms=throttle, error_code=error, session_id=0, responses=responses)
    answer = parse_fetch_response(response_body(response, version), by_id=by_id)
    found = answer.parts
    expected = [
        (topic.topic_id if by_id else topic.name, values)
        for topic, partitions in answered
        for values in partitions
    ]
    assert (answer.error, answer.throttle_ms) == (error, throttle)
    assert len(found) == len(expected)
    for fetched, (topic, values) in zip(found, expected, strict=True):
        diverging = values["diverging_epoch"]
        assert (fetched.topic, fetched.partition, fetched.error) == (
            topic,
            values["partition_index"],
            values["error_code"],
        )
        assert (fetched.high_watermark, fetched.last_stable, fetched.log_start) == (
            values["high_watermark"],
            values["last_stable_offset"],
            values["log_start_offset"],
        )
        assert fetched.aborted == tuple(values["aborted_transactions"] or ())
        assert bytes(fetched.records) == (values["records"] or b"")
        assert fetched.diverging_end == (None if diverging is None else diverging[1])
        preferred = values["preferred_read_replica"]
        assert fetched.preferred_replica == (None if preferred < 0 else preferred)


def _partition_data(values: FetchedValues) -> DataContainer:
    data_type = FetchResponse.FetchableTopicResponse.PartitionData
    data = data_type(**{k: v for k, v in values.items() if k not in {*_TAGGED, "aborted_transactions"}})
    aborted = values["aborted_transactions"]
    data.aborted_transactions = aborted and [
        data_type.AbortedTransaction(producer_id=producer_id, first_offset=first)
        for producer_id, first in aborted
    ]
    if values["aborted_transactions"] == []:
        data.aborted_transactions = []
    if values["diverging_epoch"] is not None:
        epoch, end = values["diverging_epoch"]
        data.diverging_epoch = data_type.EpochEndOffset(epoch=epoch, end_offset=end)
    if values["current_leader"] is not None:
        leader, epoch = values["current_leader"]
        data.current_leader = data_type.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return data


_TAGGED = {"diverging_epoch", "current_leader"}
ProducedValues = tuple[int, int, int, list[tuple[int, str | None]], str | None, bool]
"""Partition, error, base offset, errors of records, message, and whether the leader is told."""


@both_ways
@PRINTED
@given(
    answered=st.lists(
        st.tuples(
            topics,
            st.lists(
                st.tuples(
                    int32,
                    errors,
                    int64,
                    st.lists(st.tuples(int32, st.none() | st.text(max_size=9)), max_size=2),
                    st.none() | st.text(max_size=30),
                    st.booleans(),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    )
)
def test_a_produce_response_is_read_as_it_was_written(
    by_id: bool, answered: list[tuple[TopicRef, list[ProducedValues]]]
) -> None:
    topic_type = ProduceResponse.TopicProduceResponse
    responses = [
        topic_type(
            name=topic.name,
            topic_id=uuid.UUID(bytes=topic.topic_id),
            partition_responses=[_produced_data(*values) for values in partitions],
        )
        for topic, partitions in answered
    ]
    version = PRODUCE_VERSIONS[by_id]
    response = ProduceResponse(responses=responses, throttle_time_ms=3)
    answer = parse_produce_response(response_body(response, version), by_id=by_id)
    assert answer.throttle_ms == 3
    found = answer.parts
    assert [(p.topic, p.partition, p.error, p.base_offset, p.message) for p in found] == [
        (topic.topic_id if by_id else topic.name, partition, error, base_offset, message)
        for topic, partitions in answered
        for partition, error, base_offset, _, message, _ in partitions
    ]


def _produced_data(
    partition: int,
    error: int,
    base_offset: int,
    bad: list[tuple[int, str | None]],
    message: str | None,
    has_leader: bool,
) -> DataContainer:
    data_type = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
    data = data_type(
        index=partition,
        error_code=error,
        base_offset=base_offset,
        log_append_time_ms=-1,
        log_start_offset=0,
        error_message=message,
        record_errors=[
            data_type.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in bad
        ],
    )
    if has_leader:
        data.current_leader = data_type.LeaderIdAndEpoch(leader_id=4, leader_epoch=9)
    return data
