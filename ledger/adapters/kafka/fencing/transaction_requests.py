"""Requests about open transactions, and the marker that ends one, as `kafka-transactions.sh abort` makes it."""

from kafka.net.manager import KafkaConnectionManager

from ledger.adapters.kafka.admin.producer_requests import active_producers, write_abort_marker
from ledger.domain.facts import TopicPartition
from ledger.ports.fencing import OpenTransaction


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
    await write_abort_marker(
        manager,
        transaction.partition,
        transaction.producer_id,
        transaction.producer_epoch,
        coordinator_epoch=transaction.coordinator_epoch,
    )
