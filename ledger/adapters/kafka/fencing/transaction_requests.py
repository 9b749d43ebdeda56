"""Requests about open transactions, and what ends one: fencing its producer, or a marker where none waits for it.

The marker is that of `kafka-transactions.sh abort`. Written for a transaction that its coordinator still waits for, it
takes the records of one partition out of it: the producer commits without an error all the same (measured: 4.3).
"""

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest, WriteTxnMarkersRequest

from ledger.adapters.kafka.admin.answers import is_present, require
from ledger.adapters.kafka.admin.fetch_requests import leader_of
from ledger.adapters.kafka.admin.producer_requests import active_producers
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.facts import TopicPartition
from ledger.ports.fencing import CoordinatedTransaction, OpenTransaction

_FIRST_COORDINATOR_EPOCH = 0
_TRANSACTION_COORDINATOR = 1
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_GONE = (errors.TransactionalIdNotFoundError, errors.TransactionalIdAuthorizationFailedError)
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
        for listed in answer.transaction_states:
            return CoordinatedTransaction(str(listed.transactional_id), str(listed.transaction_state))
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
            if not is_present(one.error_code, one.transactional_id, _GONE):
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
