"""Topics of the workload whose offsets have gaps: aborted transactions and markers, and compaction."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ledger.errors import ClusterUnavailableError
from ledger.sandbox.reading import Readings, Record, ends, read_topics
from ledger.sandbox.workload import (
    TIMEOUT_S,
    Delivery,
    RecordSource,
    Workload,
    create_topics,
    produce_events,
)

TRANSFER_PARTITIONS = 2
TRANSACTION_RECORDS = 120
TRANSACTION_PARTS = 3
INVENTORY_PARTITIONS = 2
HOT_KEYS = 200
CLEANING_TIMEOUT_S = 45.0
CLEANING_POLL_S = 1.2  # longer than the cleaner's pause in a sandbox
CLEANED_QUICKLY = {
    "cleanup.policy": "compact",
    "segment.ms": "400",  # by record times: a segment is some hundred records
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
# They travel to the target of a flow: with the first, both sides keep the records that they have.
KEPT_AS_IT_IS = {"min.compaction.lag.ms": "86400000"}
CLEANED_AGAIN = {"min.compaction.lag.ms": "0"}


RECORDS_ARE_OLDER_BY_MS = 600_000
"""How long before now a workload's times start: none may lie in the future."""


def produce(servers: str, workload: Workload, say: Callable[[str], None]) -> int:
    """Create and fill every topic of a workload; returns the records produced. `say` gets the progress in words."""
    source = RecordSource(workload)
    say(workload.inventory)
    produce_inventory(servers, workload, source)
    produce_events(servers, workload, source, lambda: say(f"{source.taken:,} records"))
    say(workload.transfers)
    produce_transfers(servers, workload, source)
    return source.taken


def produce_transfers(servers: str, workload: Workload, source: RecordSource) -> None:
    """Pairs of transactions whose records alternate in the log; of each pair one aborts, in turn.

    Transactions are small against a fetch response, so that one response holds many aborted ranges.
    """
    create_topics(servers, [workload.transfers], partitions=TRANSFER_PARTITIONS)
    pair = [_transactional(servers, f"{workload.transfers}-{name}") for name in ("ada", "bob")]
    for delivery in pair:
        delivery.producer.init_transactions(TIMEOUT_S)
    for number in range(max(workload.records_per_topic // (2 * TRANSACTION_RECORDS), 2)):
        _interleave(pair, workload.transfers, source)
        pair[number % 2].producer.commit_transaction(TIMEOUT_S)
        pair[1 - number % 2].producer.abort_transaction(TIMEOUT_S)
    _wait_until_stable(servers, workload.transfers)


def _transactional(servers: str, transactional_id: str) -> Delivery:
    return Delivery(servers, {"transactional.id": transactional_id, "linger.ms": "0"})


def _interleave(pair: list[Delivery], topic: str, source: RecordSource) -> None:
    for delivery in pair:
        delivery.producer.begin_transaction()
    for _ in range(TRANSACTION_PARTS):
        for delivery in pair:
            for record in source.take(topic, TRANSACTION_RECORDS // TRANSACTION_PARTS):
                delivery.send(topic, source.partition() % TRANSFER_PARTITIONS, record)
            delivery.finish()


def _wait_until_stable(servers: str, topic: str) -> None:
    """Markers are written after the commit was answered; readers stop below until they are there."""
    for _ in _until(TIMEOUT_S, f"transactions of {topic} did not end", 0.05):
        if ends(servers, [topic]) == ends(servers, [topic], isolation="read_uncommitted"):
            return


def produce_inventory(servers: str, workload: Workload, source: RecordSource) -> None:
    """The compacted topic of a workload; it may be cleaned at once."""
    records = source.overwrite(workload.inventory, workload.records_per_topic, keys=HOT_KEYS)
    produce_compacted(servers, workload.inventory, records, CLEANED_QUICKLY)


def produce_compacted(
    servers: str, topic: str, records: Iterable[Record], configuration: Mapping[str, str]
) -> None:
    """Write small batches into many segments, each key always into the same partition."""
    create_topics(servers, [topic], partitions=INVENTORY_PARTITIONS, configuration=configuration)
    delivery = Delivery(servers, {"compression.type": "lz4", "batch.num.messages": "100"})
    for record in records:
        delivery.send(topic, sum(record.key or b"") % INVENTORY_PARTITIONS, record)
    delivery.finish()


def wait_until_cleaned(servers: str, topic: str) -> dict[int, int]:
    """Wait until the cleaner has made gaps in every partition and rests; offsets without a record."""
    before: Readings = {}
    for _ in _until(CLEANING_TIMEOUT_S, f"the cleaner left {topic} as it was", CLEANING_POLL_S):
        after = read_topics(servers, [topic])
        if after == before and all(missing_offsets(after).values()):
            break
        before = after
    return missing_offsets(after)


def missing_offsets(read: Readings) -> dict[int, int]:
    """How many offsets between the first and the last record have none, by partition."""
    return {
        partition: records[-1].offset - records[0].offset + 1 - len(records)
        for (_, partition), records in read.items()
    }


def configure(servers: str, topic: str, configuration: Mapping[str, str]) -> None:
    """Set some settings of a topic; others stay."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configuration.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(TIMEOUT_S)


def _until(timeout_s: float, failure: str, pause_s: float) -> Iterator[None]:
    """Attempts with a pause between them, up to a deadline that raises `failure`."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        yield
        time.sleep(pause_s)
    raise ClusterUnavailableError(f"{failure} within {timeout_s:.0f} s")
