"""Generated histories as ledgers: one flow, one partition, and a group committed on every offset."""

from dataclasses import asdict

from ledger.adapters.memory.tables import MemoryLedger, MemorySnapshot, Row
from ledger.schema import TABLE_BY_NAME
from tests.support.cases import default_row
from tests.support.histories import SOURCE, History, Recorded

FLOW = "east-to-west"
EAST, WEST = "east", "west"


def ledger_of(history: History, target_log_start: int | None) -> MemorySnapshot:
    """The snapshot of a ledger that recorded the history, the latest rows first: no reader may lean on that."""
    ledger = MemoryLedger()
    ledger.append("writers", [_row("writers", event="claimed", flow=FLOW, source_cluster=EAST)])
    ledger.append("offset_syncs", [_sync_row(recorded) for recorded in reversed(history.recorded)])
    for committed_offset in offsets(history):
        ledger.append("checkpoints", [_checkpoint_row(committed_offset)])
    if target_log_start is not None:
        ledger.append("high_watermarks", [_watermark_row(history, target_log_start)])
    return ledger.at(ledger.latest())


def offsets(history: History) -> range:
    return range(max(history.source_start - 2, 0), history.furthest + 3)


def group_of(committed_offset: int) -> str:
    return f"{committed_offset:06}"


def _row(table: str, **values: object) -> Row:
    return {**default_row(TABLE_BY_NAME[table].columns), **values}


def _sync_row(recorded: Recorded) -> Row:
    sync = recorded.sync
    values = {name: value for name, value in asdict(sync).items() if name not in ("source", "target")}
    for side, at in (("source", sync.source), ("target", sync.target)):
        values |= {
            f"{side}_topic": at.topic,
            f"{side}_topic_id": at.topic_id,
            f"{side}_partition": at.partition,
        }
    values |= {"flow": FLOW, "source_cluster": EAST, "target_cluster": WEST}
    values |= {"writer": f"flow:{FLOW}", "writer_epoch": recorded.writer_epoch, "round": recorded.round}
    values |= {"recorded_at_ms": recorded.writer_epoch * 1_000_000 + recorded.round}
    return _row("offset_syncs", **values)


def _checkpoint_row(committed_offset: int) -> Row:
    return _row(
        "checkpoints",
        cluster=EAST,
        group_id=group_of(committed_offset),
        topic=SOURCE.topic,
        topic_id=SOURCE.topic_id,
        partition=SOURCE.partition,
        committed_offset=committed_offset,
    )


def _watermark_row(history: History, log_start: int) -> Row:
    return _row(
        "high_watermarks",
        cluster=WEST,
        topic=history.target.topic,
        topic_id=history.target.topic_id,
        partition=history.target.partition,
        log_start=log_start,
    )
