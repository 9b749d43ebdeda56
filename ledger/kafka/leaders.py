"""What each leader of a cluster has: rules, settings, open transactions, ends of logs."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, WriteTxnMarkersRequest

from ledger.facts.acls import Authorization
from ledger.facts.fences import LeaderReading
from ledger.facts.permissions import Permission
from ledger.facts.syncs import TopicPartition
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.batches import CRC_START, batches, build
from ledger.kafka.cluster import CoordinatedTransaction, OpenTransaction, PartitionEnds, Place, Refusal
from ledger.kafka.groups import found_coordinators
from ledger.kafka.permissions import described_acls, has_authorizer
from ledger.kafka.spoken import LIST_TRANSACTIONS, OFFSET_FOR_LEADER_EPOCH, PRODUCE_BY_ID
from ledger.kafka.topics import (
    DOES_NOT_TELL,
    NO_LEADER,
    NOT_SPOKEN,
    Led,
    active_producers,
    ask_for_ends,
    brokers,
    by_leader,
    change_settings_of,
    coordinated,
    described_broker,
    described_settings,
    ends_of,
    fetch,
    is_present,
    known_epoch,
    leader_of,
    led_of,
    listed,
    metadata,
    parts,
    require,
    send_to_leaders,
    under_topics,
)

# Leader requests ----------------------------------------------------------------------------------
# Requests that are made of every leader, for what one broker knows another may not know yet.


_DESCRIBE_QUORUM = 55
_AUTHORIZER = "authorizer.class.name"
_KAFKAS_OWN = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Others know super users from elsewhere."""
_SUPER_USERS, _EVERYONE = "super.users", "allow.everyone.if.no.acl.found"


async def leaders(manager: KafkaConnectionManager, topics: Sequence[str]) -> dict[Place, int]:
    """Raises kafka-python's error where a topic does not exist, or a partition has no leader."""
    found: dict[Place, int] = {}
    for topic in (await metadata(manager, topics)).topics:
        require(topic.error_code, topic.name)
        for partition in topic.partitions:
            if partition.leader_id < 0:
                raise errors.LeaderNotAvailableError(f"{topic.name} partition {partition.partition_index}")
            found[topic.name, partition.partition_index] = partition.leader_id
    return found


async def keeps_metadata(manager: KafkaConnectionManager) -> bool:
    """Brokers that run with ZooKeeper do not speak of a quorum of their own."""
    await metadata(manager, [])
    request = ApiVersionsRequest(client_software_name="mirror-ledger", client_software_version="1")
    answer = await manager.send(request)
    require(answer.error_code, None)
    return any(api.api_key == _DESCRIBE_QUORUM for api in answer.api_keys)


async def acls_at(manager: KafkaConnectionManager, broker: int) -> frozenset[Permission]:
    await metadata(manager, [])
    return await described_acls(manager, broker=broker)


async def settings_at(
    manager: KafkaConnectionManager, broker: int, topics: Sequence[str], names: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    await metadata(manager, [])
    answer = await described_settings(manager, topics, broker, names)
    for topic, reason in answer.refused.items():
        raise errors.TopicAuthorizationFailedError(f"{topic}: {reason}")
    return {topic: found.effective for topic, found in answer.read.items()}


async def authorizations(manager: KafkaConnectionManager) -> list[Authorization] | None:
    """Of every broker; None: the cluster has no authorizer."""
    nodes = await brokers(manager)
    if not await has_authorizer(manager):
        return None
    return [await _authorization(manager, node) for node in nodes]


async def _authorization(manager: KafkaConnectionManager, broker: int) -> Authorization:
    """Unless a setting is given, Kafka's default holds; one that is given may be hidden as a secret would be."""
    result = await described_broker(manager, broker)
    if issubclass(errors.for_code(result.error_code), DOES_NOT_TELL):
        return Authorization(broker, None, None)
    require(result.error_code, result.error_message)
    given: dict[str, Any] = {setting.name: setting.value for setting in result.configs}
    if given.get(_AUTHORIZER) not in _KAFKAS_OWN:
        return Authorization(broker, None, None)
    users, everyone = given.get(_SUPER_USERS, ""), given.get(_EVERYONE, "false")
    return Authorization(
        broker,
        None if users is None else frozenset(filter(None, map(str.strip, users.split(";")))),
        None if everyone is None else everyone.strip().lower() == "true",
    )


# Marker requests ----------------------------------------------------------------------------------
# Requests about the producer epochs of many partitions: one to each leader.


_NO_COORDINATOR_YET = 0


async def producer_epochs(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition], producer_id: int
) -> dict[TopicPartition, int]:
    """The epoch that each leader remembers of a producer; partitions where it remembers none are left out."""
    return {
        at: int(active[producer_id].producer_epoch)
        for at, active in (await active_producers(manager, partitions)).items()
        if producer_id in active
    }


async def write_abort_markers(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition], producer_id: int, epoch: int
) -> None:
    """End a transaction of a producer at each of the partitions, of which there need be none.

    Raises kafka-python's error when a leader refuses: for a later epoch, or without the right. What a leader only
    cannot now is no error: whoever asks which epochs are known tries it again, and the others get no second marker.
    """
    for node, led in (await by_leader(manager, partitions)).items():
        request = _abort_markers(led, producer_id, epoch, _NO_COORDINATOR_YET)
        for topic, entry in _written(await manager.send(request, node_id=node)):
            with suppress(errors.RetriableError):
                require(entry.error_code, f"{topic} partition {entry.partition_index}")


def _abort_markers(
    partitions: Iterable[TopicPartition], producer_id: int, epoch: int, coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    places = ((at.topic, at.partition) for at in partitions)
    one = marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=under_topics(places, marker.WritableTxnMarkerTopic, of="partition_indexes"),
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[one])


def _written(answer: Any) -> Iterator[tuple[str, Any]]:
    """Topic and answer of each partition that a marker was for."""
    for marker in answer.markers:
        for topic in marker.topics:
            for entry in topic.partitions:
                yield topic.name, entry


# Transaction requests -----------------------------------------------------------------------------
# Requests about open transactions, and what ends one: fencing its producer, or a marker where none waits
# for it.
#
# The marker is that of `kafka-transactions.sh abort`. Written for a transaction that its coordinator still
# waits for, it takes the records of one partition out of it: the producer commits without an error all the
# same (measured: 4.3).


_FIRST_COORDINATOR_EPOCH = 0
_TRANSACTION_COORDINATOR = 1
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_ABSENT = (errors.TransactionalIdNotFoundError, errors.TransactionalIdAuthorizationFailedError)
_TIMEOUT_MS = 60_000
"""Kafka's default; the application's next instance gives its own again."""


async def open_transactions(
    manager: KafkaConnectionManager, partition: TopicPartition
) -> list[OpenTransaction]:
    """The earliest first."""
    found = (await active_producers(manager, [partition]))[partition]
    transactions = [
        OpenTransaction(
            partition=partition,
            producer_id=producer_id,
            producer_epoch=known.producer_epoch,
            coordinator_epoch=known.coordinator_epoch,
            start=known.current_txn_start_offset,
            last_timestamp_ms=known.last_timestamp if known.last_timestamp >= 0 else None,
        )
        for producer_id, known in found.items()
        if known.current_txn_start_offset >= 0
    ]
    return sorted(transactions, key=lambda one: one.start)


async def transactions_in(
    manager: KafkaConnectionManager, topics: frozenset[str]
) -> list[CoordinatedTransaction]:
    """Each broker is asked for those that it coordinates, all at once, and then where these lie; before 3.0 nothing."""
    sent = {
        # A request of its own for each: the library keeps what was sent to one in it.
        node: manager.send(
            ListTransactionsRequest(
                state_filters=list(_OPEN), producer_id_filters=[], **LIST_TRANSACTIONS.bounds
            ),
            node_id=node,
        )
        for node in await brokers(manager)
    }
    asked = {}
    for node, answer in sent.items():
        try:
            answered = await answer
            require(answered.error_code, None)
        except NOT_SPOKEN:
            continue
        if ids := [one.transactional_id for one in answered.transaction_states]:
            asked[node] = manager.send(DescribeTransactionsRequest(transactional_ids=ids), node_id=node)
    found = []
    for pending in asked.values():
        try:
            described = (await pending).transaction_states
        except NOT_SPOKEN:
            continue
        for one in described:
            if not is_present(one.error_code, one.transactional_id, (*_ABSENT, *NOT_SPOKEN)):
                continue
            places = frozenset((of.topic, number) for of in one.topics for number in of.partitions)
            within = frozenset(place for place in places if place[0] in topics)
            if within and one.transaction_state in _OPEN:
                found.append(CoordinatedTransaction(one.transactional_id, one.transaction_state, within))
    return found


async def fence_producer(manager: KafkaConnectionManager, transactional_id: str) -> None:
    """As the producer's next instance would begin: the coordinator aborts what is open, and gives a new epoch."""
    await metadata(manager, [])
    [found] = await found_coordinators(manager, _TRANSACTION_COORDINATOR, [transactional_id])
    require(found.error_code, found.error_message)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    answer = await manager.send(request, node_id=found.node_id)
    require(answer.error_code, transactional_id)


async def abort_hanging(manager: KafkaConnectionManager, transaction: OpenTransaction) -> None:
    """Raises kafka-python's error when the leader refuses: for another epoch by now, or without the right."""
    at, epoch = transaction.partition, transaction.producer_epoch
    # A partition that no coordinator ever wrote a marker to knows no epoch of one.
    coordinator_epoch = max(transaction.coordinator_epoch, _FIRST_COORDINATOR_EPOCH)
    request = _abort_markers([at], transaction.producer_id, epoch, coordinator_epoch)
    for _, entry in _written(await manager.send(request, node_id=await leader_of(manager, at))):
        require(entry.error_code, at.topic)


# Log requests -------------------------------------------------------------------------------------
# Requests about logs as their leaders have them, many partitions at once: ends, the last batches, refusals.
#
# What is sent to have it refused is a batch whose checksum is wrong, so it is appended under no setting. A
# broker compares the size of a batch before its checksum (measured: 4.3); were it otherwise, nothing would
# count as refused for its size. The leader answers alone (acks=1), so that nobody waits for replicas.


_CONSUMER = -1
_BY_LEADER_ALONE = 1
_LOG_TIMEOUT_MS = 5_000
_LAST_OFFSETS = 200
_LAST_BYTES = 8_192
_MOST_BYTES = 50 << 20


async def readings(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, LeaderReading]:
    """Four answers of each leader, asked for in one go."""
    led = await led_of(manager, places)
    asked = ask_for_ends(manager, led, of_leader_epoch=True)
    sent = send_to_leaders(manager, led, partial(_log_end_request, led))
    ends = await ends_of(asked)
    try:
        log_ends = {
            (topic.topic, entry.partition): entry
            for answer in [await one for one in sent]
            for topic in answer.topics
            for entry in topic.partitions
            if is_present(entry.error_code, topic.topic, NO_LEADER)
        }
    except DOES_NOT_TELL:  # leaders do not tell the ends of their logs
        log_ends = dict.fromkeys(ends)
    return {
        place: _reading(one, ends[place], log_ends[place])
        for place, one in led.items()
        if place in ends and place in log_ends
    }


def _reading(led: Led, ends: PartitionEnds, log_end: Any | None) -> LeaderReading:
    """`log_end` None: leaders do not tell it."""
    is_known = (
        log_end is not None and log_end.leader_epoch == led.leader_epoch >= 0 and log_end.end_offset >= 0
    )
    return LeaderReading(
        leader=led.leader,
        leader_epoch=None if log_end is None else known_epoch(log_end.leader_epoch),
        log_start=ends.log_start,
        last_stable=ends.last_stable,
        high_watermark=ends.high_watermark,
        log_end=log_end.end_offset if is_known and log_end is not None else None,
        in_sync=led.in_sync,
    )


def _log_end_request(led: Mapping[Place, Led], places: Sequence[Place]) -> OffsetForLeaderEpochRequest:
    """The end of the epoch that lasts is the end of the leader's log, whatever followers have of it."""
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    entries = (
        (
            at[0],
            topic.OffsetForLeaderPartition(
                partition=at[1],
                current_leader_epoch=led[at].leader_epoch,
                leader_epoch=led[at].leader_epoch,
            ),
        )
        for at in places
    )
    topics = under_topics(entries, topic, name="topic")
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics, **OFFSET_FOR_LEADER_EPOCH.bounds)


async def smallest_batches(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, int]:
    seen = await readings(manager, places)
    near_the_end = {at: max(one.log_start, one.high_watermark - _LAST_OFFSETS) for at, one in seen.items()}
    sent = send_to_leaders(
        manager,
        seen,
        lambda some: fetch(
            {at: near_the_end[at] for at in some}, partition_bytes=_LAST_BYTES, most_bytes=_MOST_BYTES
        ),
    )
    found: dict[Place, int] = {}
    for answer in [await one for one in sent]:
        require(answer.error_code, None)
        for topic in answer.responses:
            for one in topic.partitions:
                if sizes := _sizes(one, topic.topic):
                    found[topic.topic, one.partition_index] = min(sizes)
    return found


def _sizes(answered: Any, topic: str) -> list[int]:
    if not is_present(answered.error_code, topic, (*NO_LEADER, errors.OffsetOutOfRangeError)):
        return []
    headers = [header for header, _ in batches(memoryview(bytes(answered.records or b"")))]
    return [header.size for header in headers if not header.is_control and header.count > 0]


# Refusals -------------------------------------------------------------------------------------------


async def refusals(
    manager: KafkaConnectionManager, places: Sequence[Place]
) -> dict[Place, tuple[int, Refusal]]:
    """One that was asked while leaders change has not answered for itself: it is left out."""
    led = await led_of(manager, places)
    sent = send_to_leaders(manager, led, _produce)
    return {
        (topic.name, one.index): (led[topic.name, one.index].leader, _refusal(one.error_code))
        for answer in [await one for one in sent]
        for topic in answer.responses
        for one in topic.partition_responses
        if not issubclass(errors.for_code(one.error_code), NO_LEADER)
    }


def _refusal(error_code: int) -> Refusal:
    kind: Any = errors.for_code(error_code)
    if kind is errors.MessageSizeTooLargeError:
        return Refusal.BY_SIZE
    return Refusal.NOT_YET if kind in (errors.CorruptRecordError, errors.NoError) else Refusal.NOT_KNOWN


def _damaged() -> bytes:
    """Larger than 78 bytes and smaller than anything that people allow; its one record is none, either."""
    batch = build(attributes=0, base_timestamp=0, max_timestamp=0, count=1, payload=bytes(40))
    batch[CRC_START - 1] ^= 0xFF
    return bytes(batch)


_DAMAGED = _damaged()


def _produce(places: Sequence[Place]) -> ProduceRequest:
    topic = ProduceRequest.TopicProduceData
    entries = ((name, topic.PartitionProduceData(index=number, records=_DAMAGED)) for name, number in places)
    return ProduceRequest(
        transactional_id=None,
        acks=_BY_LEADER_ALONE,
        timeout_ms=_LOG_TIMEOUT_MS,
        topic_data=under_topics(entries, topic, of="partition_data"),
        max_version=PRODUCE_BY_ID.oldest - 1,
    )


# Fenced cluster -----------------------------------------------------------------------------------
# A real cluster as fences need it: `FenceReader`, `FenceControl` and `ShutOutCluster`.


_PARTITIONS_AT_ONCE = 1000
_SETTINGS_AT_ONCE = 500
Answer = TypeVar("Answer")


class KafkaFencing(KafkaAdmin):
    """With the credentials of the mirror it reads, with those of an administrator it changes."""

    def authorizations(self) -> Sequence[Authorization] | None:
        return self.connection.run("ask brokers who decides what is allowed", authorizations)

    def readings(self, partitions: Sequence[Place]) -> dict[Place, LeaderReading]:
        return self._answered(partitions, "read the ends", readings)

    def smallest_batches(self, partitions: Sequence[Place]) -> dict[Place, int]:
        return self._answered(partitions, "read the last batches", smallest_batches)

    def refusals(self, partitions: Sequence[Place]) -> dict[Place, tuple[int, Refusal]]:
        return self._answered(partitions, "ask leaders to refuse a batch", refusals)

    def _answered(
        self,
        partitions: Sequence[Place],
        what: str,
        ask: Callable[[KafkaConnectionManager, Sequence[Place]], Awaitable[dict[Place, Answer]]],
    ) -> dict[Place, Answer]:
        """What leaders answer, asked about so many partitions at once."""
        found: dict[Place, Answer] = {}
        for some in parts(partitions, _PARTITIONS_AT_ONCE):
            topics = listed(sorted({topic for topic, _ in some}))
            found |= self.connection.run(f"{what} of {topics}", ask, some)
        return found

    def keeps_metadata(self) -> bool:
        return self.connection.run("ask whether brokers keep the metadata", keeps_metadata)

    def leaders(self, topics: Sequence[str]) -> dict[Place, int]:
        return self.connection.run(f"find the leaders of {listed(topics)}", leaders, topics)

    def acls_at(self, broker: int) -> frozenset[Permission]:
        operation = f"describe access control lists of topics at broker {broker}"
        return self.connection.run(operation, acls_at, broker)

    def settings_at(
        self, broker: int, topics: Sequence[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, str]]:
        operation = f"describe the configuration of {listed(topics)} at broker {broker}"
        return self.connection.run(operation, settings_at, broker, topics, sorted(names))

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        for some in parts(sorted(values), _SETTINGS_AT_ONCE):
            changes = {topic: {name: values[topic]} for topic in some}
            operation = f"change {name} of {listed(some)}"
            self.connection.run(operation, change_settings_of, changes)

    def transactions_in(self, topics: Sequence[str]) -> Sequence[CoordinatedTransaction]:
        operation = f"list the open transactions of {listed(topics)}"
        return self.connection.run(operation, transactions_in, frozenset(topics))

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]:
        operation = f"describe the producers of topic {partition.words}"
        return self.connection.run(operation, open_transactions, partition)

    def producer_epochs(
        self, partitions: Sequence[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int]:
        operation = f"find the epochs of producer {producer_id} in {_topics_of(partitions)}"
        return self.connection.run(operation, producer_epochs, partitions, producer_id)

    def write_abort_markers(
        self, partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        operation = f"write abort markers to {_topics_of(partitions)}"
        self.connection.run(operation, write_abort_markers, partitions, producer_id, producer_epoch)

    def coordinated(self, producer_id: int) -> CoordinatedTransaction | None:
        operation = f"list the transactions of producer {producer_id}"
        return self.connection.run(operation, coordinated, producer_id)

    def fence_producer(self, transactional_id: str) -> None:
        operation = f"fence the producer of transactional id {transactional_id}"
        self.connection.run(operation, fence_producer, transactional_id)

    def abort_hanging(self, transaction: OpenTransaction) -> None:
        at = transaction.partition
        operation = (
            f"abort the transaction of producer {transaction.producer_id} in {at.topic} {at.partition}"
        )
        self.connection.run(operation, abort_hanging, transaction)


def _topics_of(partitions: Sequence[TopicPartition]) -> str:
    return listed(sorted({at.topic for at in partitions}))
