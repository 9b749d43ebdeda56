"""What each leader of a cluster has: rules, settings, open transactions, ends of logs."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, WriteTxnMarkersRequest

from ledger.errors import ClusterUnavailableError
from ledger.facts.acls import Authorization
from ledger.facts.fences import LeaderReading
from ledger.facts.permissions import Permission
from ledger.facts.syncs import TopicPartition, topic_id_text
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.batches import CRC_START, batches, build
from ledger.kafka.cluster import CoordinatedTransaction, OpenTransaction, Place, Refusal
from ledger.kafka.permissions import described_acls, has_authorizer
from ledger.kafka.topics import (
    ABSENT_LEADER,
    ABSENT_TOPIC,
    active_producers,
    change_settings_of,
    described_settings,
    is_present,
    known_epoch,
    leader_of,
    listed,
    metadata,
    offsets_of,
    parts,
    require,
)

# Leader requests ----------------------------------------------------------------------------------
# Requests that are made of every leader, for what one broker knows another may not know yet.


_DESCRIBE_QUORUM = 55
_BROKER = 4
_ANY = 1
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
    brokers = [broker.node_id for broker in (await metadata(manager, [])).brokers]
    if not await has_authorizer(manager):
        return None
    return [await _authorization(manager, broker) for broker in brokers]


async def _authorization(manager: KafkaConnectionManager, broker: int) -> Authorization:
    """Unless a setting is given, Kafka's default holds; one that is given may be hidden as a secret would be."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[resource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=None)],
        include_synonyms=False,
        include_documentation=False,
    )
    [result] = (await manager.send(request, node_id=broker)).results
    if issubclass(errors.for_code(result.error_code), errors.AuthorizationError):
        return Authorization(broker, None, None)
    require(result.error_code, result.error_message)
    given: dict[str, Any] = {setting.name: setting.value for setting in result.configs}
    if given.get(_AUTHORIZER) not in _KAFKAS_OWN:
        return Authorization(broker, None, None)
    return Authorization(broker, _super_users(given), _allows_everyone(given))


def _super_users(given: Mapping[str, str | None]) -> frozenset[str] | None:
    users = given.get(_SUPER_USERS, "")
    return None if users is None else frozenset(_names(users.split(";")))


def _names(texts: Collection[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


def _allows_everyone(given: Mapping[str, str | None]) -> bool | None:
    value = given.get(_EVERYONE, "false")
    return None if value is None else value.strip().lower() == "true"


# Marker requests ----------------------------------------------------------------------------------
# Requests about the producer epochs of many partitions: one to each leader.


_NO_COORDINATOR_YET = 0


async def producer_epochs(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition], producer_id: int
) -> dict[TopicPartition, int]:
    """The epoch that each leader remembers of a producer; partitions where it remembers none are left out."""
    known: dict[TopicPartition, int] = {}
    topic = DescribeProducersRequest.TopicRequest
    for node, led in (await _by_leader(manager, partitions)).items():
        answer = await manager.send(
            DescribeProducersRequest(
                topics=_by_topic(led, lambda name, ids: topic(name=name, partition_indexes=ids))
            ),
            node_id=node,
        )
        at_place = {(at.topic, at.partition): at for at in led}
        for found in answer.topics:
            for entry in found.partitions:
                require(entry.error_code, f"{found.name} partition {entry.partition_index}")
                for producer in entry.active_producers:
                    if producer.producer_id == producer_id:
                        known[at_place[found.name, entry.partition_index]] = int(producer.producer_epoch)
    return known


async def write_abort_markers(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition], producer_id: int, epoch: int
) -> None:
    """End a transaction of a producer at each of the partitions, of which there need be none.

    Raises kafka-python's error when a leader refuses: for a later epoch, or without the right. What a leader only
    cannot now is no error: whoever asks which epochs are known tries it again, and the others get no second marker.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic
    for node, led in (await _by_leader(manager, partitions)).items():
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_result=False,
                    topics=_by_topic(led, lambda name, ids: topic(name=name, partition_indexes=ids)),
                    coordinator_epoch=_NO_COORDINATOR_YET,
                )
            ]
        )
        answer = await manager.send(request, node_id=node)
        for one in answer.markers:
            for written in one.topics:
                for entry in written.partitions:
                    _require_no_refusal(entry.error_code, f"{written.name} partition {entry.partition_index}")


def _require_no_refusal(error_code: int, place: str) -> None:
    try:
        require(error_code, place)
    except errors.RetriableError:
        return


def _by_topic(partitions: Iterable[TopicPartition], made: Callable[[str, list[int]], Any]) -> list[Any]:
    numbers: dict[str, list[int]] = {}
    for at in partitions:
        numbers.setdefault(at.topic, []).append(at.partition)
    return [made(name, found) for name, found in sorted(numbers.items())]


async def _by_leader(
    manager: KafkaConnectionManager, partitions: Sequence[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Raises kafka-python's error where one has no leader, or its topic has another id by now."""
    answer = await metadata(manager, sorted({at.topic for at in partitions}))
    leaders: dict[tuple[str, int], int] = {}
    for topic in answer.topics:
        require(topic.error_code, topic.name)
        topic_id = topic_id_text(topic.topic_id.bytes)
        if other := [at.topic_id for at in partitions if at.topic == topic.name and at.topic_id != topic_id]:
            raise ClusterUnavailableError(
                f"{topic.name} has another topic id than {other[0]} by now; not done"
            )
        leaders |= {(topic.name, one.partition_index): one.leader_id for one in topic.partitions}
    led: dict[int, list[TopicPartition]] = {}
    for at in partitions:
        node = leaders.get((at.topic, at.partition), -1)
        if node < 0:
            raise errors.LeaderNotAvailableError(f"{at.topic} partition {at.partition}")
        led.setdefault(node, []).append(at)
    return led


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
    found = await active_producers(manager, partition)
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


async def coordinated(manager: KafkaConnectionManager, producer_id: int) -> CoordinatedTransaction | None:
    """Each broker lists the transactions that it coordinates, of those that this principal may describe."""
    for node in [broker.node_id for broker in (await metadata(manager, [])).brokers]:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id], max_version=0)
        answer = await manager.send(request, node_id=node)
        require(answer.error_code, None)
        for one in answer.transaction_states:
            return CoordinatedTransaction(str(one.transactional_id), str(one.transaction_state))
    return None


async def transactions_in(
    manager: KafkaConnectionManager, topics: frozenset[str]
) -> list[CoordinatedTransaction]:
    """Each broker is asked for those that it coordinates, all at once, and then where these lie; before 3.0 nothing."""
    nodes = [broker.node_id for broker in (await metadata(manager, [])).brokers]
    sent = {node: manager.send(_list_open(), node_id=node) for node in nodes}
    asked = {}
    for node, answer in sent.items():
        try:
            answered = await answer
        except errors.IncompatibleBrokerVersion:
            continue
        require(answered.error_code, None)
        if ids := [one.transactional_id for one in answered.transaction_states]:
            asked[node] = manager.send(DescribeTransactionsRequest(transactional_ids=ids), node_id=node)
    found = []
    for described in asked.values():
        for one in (await described).transaction_states:
            if not is_present(one.error_code, one.transactional_id, _ABSENT):
                continue
            places = frozenset((of.topic, number) for of in one.topics for number in of.partitions)
            within = frozenset(place for place in places if place[0] in topics)
            if within and one.transaction_state in _OPEN:
                found.append(CoordinatedTransaction(one.transactional_id, one.transaction_state, within))
    return found


def _list_open() -> ListTransactionsRequest:
    """One for each broker: the library keeps what was sent to one in it."""
    return ListTransactionsRequest(state_filters=list(_OPEN), producer_id_filters=[], max_version=0)


async def fence_producer(manager: KafkaConnectionManager, transactional_id: str) -> None:
    """As the producer's next instance would begin: the coordinator aborts what is open, and gives a new epoch."""
    await metadata(manager, [])
    search = FindCoordinatorRequest(
        key_type=_TRANSACTION_COORDINATOR, coordinator_keys=[transactional_id], min_version=4
    )
    [found] = (await manager.send(search)).coordinators
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
    at = transaction.partition
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic
    # A partition that no coordinator ever wrote a marker to knows no epoch of one.
    coordinator_epoch = max(transaction.coordinator_epoch, _FIRST_COORDINATOR_EPOCH)
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transaction_result=False,
                topics=[topic(name=at.topic, partition_indexes=[at.partition])],
                coordinator_epoch=coordinator_epoch,
            )
        ]
    )
    answer = await manager.send(request, node_id=await leader_of(manager, at))
    for one in answer.markers:
        for written in one.topics:
            for entry in written.partitions:
                require(entry.error_code, at.topic)


# Log requests -------------------------------------------------------------------------------------
# Requests about logs as their leaders have them, many partitions at once: ends, the last batches, refusals.
#
# What is sent to have it refused is a batch whose checksum is wrong, so it is appended under no setting. A
# broker compares the size of a batch before its checksum (measured: 4.3); were it otherwise, nothing would
# count as refused for its size. The leader answers alone (acks=1), so that nobody waits for replicas.


_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_CONSUMER, _NO_EPOCH, _NO_SESSION = -1, -1, -1
_NO_LEADER = (*ABSENT_TOPIC, *ABSENT_LEADER)
_BY_LEADER_ALONE = 1
_LOG_TIMEOUT_MS = 5_000
_LAST_OFFSETS = 200
_LAST_BYTES = 8_192
_MOST_BYTES = 50 << 20
_FIRST_FETCH, _LAST_FETCH = 4, 12  # with names of topics
_LAST_NAMED_PRODUCE = 12


@dataclass(frozen=True, slots=True)
class _Led:
    leader: int
    leader_epoch: int
    in_sync: int


async def _led(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, _Led]:
    """Those that have a leader. Raises kafka-python's error for a topic that this principal may not describe."""
    wanted = set(places)
    answer = await metadata(manager, sorted({topic for topic, _ in wanted}))
    found = {}
    for topic in answer.topics:
        if not is_present(topic.error_code, topic.name, _NO_LEADER):
            continue
        for one in topic.partitions:
            place = topic.name, one.partition_index
            if place in wanted and one.leader_id >= 0:
                found[place] = _Led(one.leader_id, one.leader_epoch, len(one.isr_nodes))
    return found


def _led_by_broker(led: Mapping[Place, _Led | LeaderReading]) -> dict[int, dict[str, list[int]]]:
    """Partitions by topic, by the broker that leads them."""
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, partition), one in led.items():
        found[one.leader][topic].append(partition)
    return found


# Ends -----------------------------------------------------------------------------------------------


async def readings(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, LeaderReading]:
    """Four answers of each leader, asked for in one go."""
    led = await _led(manager, places)
    by_leader = _led_by_broker(led)
    questions = [
        _offsets_request(_EARLIEST, _READ_UNCOMMITTED),
        _offsets_request(_LATEST, _READ_COMMITTED),
        _offsets_request(_LATEST, _READ_UNCOMMITTED),
        _log_end_request,
    ]
    sent = [
        [manager.send(request(topics, led), node_id=leader) for leader, topics in by_leader.items()]
        for request in questions
    ]
    starts, stable, latest = [offsets_of([await one for one in answers]) for answers in sent[:3]]
    log_ends = _log_ends([await one for one in sent[3]])
    return {
        place: _reading(one, starts[place], stable[place], latest[place], log_ends[place])
        for place, one in led.items()
        if all(place in found for found in (starts, stable, latest, log_ends))
    }


def _reading(led: _Led, start: Any, stable: Any, latest: Any, log_end: Any) -> LeaderReading:
    last_stable = max(start.offset, stable.offset)
    is_known = log_end.leader_epoch == led.leader_epoch >= 0 and log_end.end_offset >= 0
    return LeaderReading(
        leader=led.leader,
        leader_epoch=known_epoch(log_end.leader_epoch),
        log_start=start.offset,
        last_stable=last_stable,
        high_watermark=max(last_stable, latest.offset),
        log_end=log_end.end_offset if is_known else None,
        in_sync=led.in_sync,
    )


def _offsets_request(timestamp: int, isolation: int) -> Any:
    def request(topics: Mapping[str, Sequence[int]], led: Mapping[Place, _Led]) -> ListOffsetsRequest:
        topic = ListOffsetsRequest.ListOffsetsTopic
        return ListOffsetsRequest(
            isolation_level=isolation,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=number,
                            timestamp=timestamp,
                            current_leader_epoch=led[name, number].leader_epoch,
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in topics.items()
            ],
            min_version=4,
        )

    return request


def _log_end_request(
    topics: Mapping[str, Sequence[int]], led: Mapping[Place, _Led]
) -> OffsetForLeaderEpochRequest:
    """The end of the epoch that lasts is the end of the leader's log, whatever followers have of it."""
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.OffsetForLeaderPartition(
                        partition=number,
                        current_leader_epoch=led[name, number].leader_epoch,
                        leader_epoch=led[name, number].leader_epoch,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        min_version=3,
    )


def _log_ends(answers: Sequence[Any]) -> dict[Place, Any]:
    return {
        (topic.topic, entry.partition): entry
        for answer in answers
        for topic in answer.topics
        for entry in topic.partitions
        if is_present(entry.error_code, topic.topic, _NO_LEADER)
    }


# The last batches -----------------------------------------------------------------------------------


async def smallest_batches(manager: KafkaConnectionManager, places: Sequence[Place]) -> dict[Place, int]:
    seen = await readings(manager, places)
    sent = [
        manager.send(_fetch(topics, seen), node_id=leader) for leader, topics in _led_by_broker(seen).items()
    ]
    found: dict[Place, int] = {}
    for answer in [await one for one in sent]:
        require(answer.error_code, None)
        for topic in answer.responses:
            for one in topic.partitions:
                if sizes := _sizes(one, topic.topic):
                    found[topic.topic, one.partition_index] = min(sizes)
    return found


def _sizes(answered: Any, topic: str) -> list[int]:
    if not is_present(answered.error_code, topic, (*_NO_LEADER, errors.OffsetOutOfRangeError)):
        return []
    headers = [header for header, _ in batches(memoryview(bytes(answered.records or b"")))]
    return [header.size for header in headers if not header.is_control and header.count > 0]


def _fetch(topics: Mapping[str, Sequence[int]], seen: Mapping[Place, LeaderReading]) -> Any:
    topic = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_MOST_BYTES,
        isolation_level=_READ_UNCOMMITTED,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.FetchPartition(
                        partition=number,
                        current_leader_epoch=_NO_EPOCH,
                        fetch_offset=_near_the_end(seen[name, number]),
                        last_fetched_epoch=_NO_EPOCH,
                        log_start_offset=_NO_EPOCH,
                        partition_max_bytes=_LAST_BYTES,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_FIRST_FETCH,
        max_version=_LAST_FETCH,
    )


def _near_the_end(reading: LeaderReading) -> int:
    return max(reading.log_start, reading.high_watermark - _LAST_OFFSETS)


# Refusals -------------------------------------------------------------------------------------------


async def refusals(
    manager: KafkaConnectionManager, places: Sequence[Place]
) -> dict[Place, tuple[int, Refusal]]:
    """One that was asked while leaders change has not answered for itself: it is left out."""
    led = await _led(manager, places)
    sent = [manager.send(_produce(topics), node_id=leader) for leader, topics in _led_by_broker(led).items()]
    return {
        (topic.name, one.index): (led[topic.name, one.index].leader, _refusal(one.error_code))
        for answer in [await one for one in sent]
        for topic in answer.responses
        for one in topic.partition_responses
        if not issubclass(errors.for_code(one.error_code), _NO_LEADER)
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


def _produce(topics: Mapping[str, Sequence[int]]) -> Any:
    topic = ProduceRequest.TopicProduceData
    return ProduceRequest(
        transactional_id=None,
        acks=_BY_LEADER_ALONE,
        timeout_ms=_LOG_TIMEOUT_MS,
        topic_data=[
            topic(
                name=name,
                partition_data=[
                    topic.PartitionProduceData(index=number, records=_DAMAGED) for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        max_version=_LAST_NAMED_PRODUCE,
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
            found |= self.connection.run(f"{what} of {_listed(some)}", ask, some)
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
        operation = f"describe the producers of topic {partition.topic} partition {partition.partition}"
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
        write = write_abort_markers
        self.connection.run(operation, write, partitions, producer_id, producer_epoch)

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


def _listed(places: Sequence[Place]) -> str:
    return listed(sorted({topic for topic, _ in places}))


def _topics_of(partitions: Sequence[TopicPartition]) -> str:
    return listed(sorted({at.topic for at in partitions}))
