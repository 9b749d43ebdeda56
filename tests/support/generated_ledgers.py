"""Generated histories as ledgers: one flow, partitions with a history each, and a group committed on every offset."""

from collections.abc import Sequence
from dataclasses import asdict

from ledger.adapters.memory.tables import MemoryLedger, MemorySnapshot, Row
from tests.support.histories import SOURCE, History, Recorded
from tests.support.ledger_rows import row

FLOW = "east-to-west"
EAST, WEST = "east", "west"


def ledger_of(history: History, target_log_start: int | None) -> MemorySnapshot:
    """The snapshot of a ledger that recorded the history of partition 0."""
    return ledger_of_partitions([(history, target_log_start)])


def ledger_of_partitions(partitions: Sequence[tuple[History, int | None]]) -> MemorySnapshot:
    """History and target log start of each partition, the latest rows first: no reader may lean on that."""
    ledger = MemoryLedger()
    ledger.append("writers", [row("writers", event="claimed", flow=FLOW, source_cluster=EAST)])
    for partition, (history, target_log_start) in reversed(list(enumerate(partitions))):
        syncs = [_sync_row(partition, recorded) for recorded in reversed(history.recorded)]
        ledger.append("offset_syncs", syncs)
        commits = [_checkpoint_row(partition, committed) for committed in offsets(history)]
        ledger.append("checkpoints", commits)
        if target_log_start is not None:
            ledger.append("high_watermarks", [_watermark_row(partition, history, target_log_start)])
    return ledger.at(ledger.latest())


def offsets(history: History) -> range:
    return range(max(history.source_start - 2, 0), history.furthest + 3)


def group_of(committed_offset: int) -> str:
    return f"{committed_offset:06}"


def _sync_row(partition: int, recorded: Recorded) -> Row:
    sync = recorded.sync
    values = {name: value for name, value in asdict(sync).items() if name not in ("source", "target")}
    for side, at in (("source", sync.source), ("target", sync.target)):
        values |= {
            f"{side}_topic": at.topic,
            f"{side}_topic_id": at.topic_id,
            f"{side}_partition": partition,
        }
    values |= {"flow": FLOW, "source_cluster": EAST, "target_cluster": WEST}
    values |= {"writer": f"flow:{FLOW}", "writer_epoch": recorded.writer_epoch, "round": recorded.round}
    values |= {"recorded_at_ms": recorded.writer_epoch * 1_000_000 + recorded.round}
    return row("offset_syncs", **values)


def _checkpoint_row(partition: int, committed_offset: int) -> Row:
    return row(
        "checkpoints",
        cluster=EAST,
        group_id=group_of(committed_offset),
        topic=SOURCE.topic,
        topic_id=SOURCE.topic_id,
        partition=partition,
        committed_offset=committed_offset,
    )


def _watermark_row(partition: int, history: History, log_start: int) -> Row:
    return row(
        "high_watermarks",
        cluster=WEST,
        topic=history.target.topic,
        topic_id=history.target.topic_id,
        partition=partition,
        log_start=log_start,
    )
