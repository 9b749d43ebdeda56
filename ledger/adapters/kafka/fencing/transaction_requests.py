"""Requests about open transactions, and the marker that ends one, as `kafka-transactions.sh abort` makes it."""

from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.producer import WriteTxnMarkersRequest

from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.fetch_requests import leader_of
from ledger.adapters.kafka.admin.producer_requests import active_producers
from ledger.domain.facts import TopicPartition
from ledger.ports.fencing import OpenTransaction

_FIRST_COORDINATOR_EPOCH = 0


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
        )
        for producer_id, known in found.items()
        if known.current_txn_start_offset >= 0
    ]
    return sorted(transactions, key=lambda one: one.start)


async def abort(manager: KafkaConnectionManager, transaction: OpenTransaction) -> None:
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
