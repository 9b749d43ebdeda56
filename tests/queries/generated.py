"""Generated histories as ledgers: one flow, one partition, and a group committed on every offset."""

from dataclasses import asdict

from ledger.adapters.memory.tables import MemoryLedger, MemorySnapshot, Row
from ledger.domain.facts import OffsetSync
from ledger.schema import TABLE_BY_NAME
from tests.domain.ledgers import SOURCE, TARGET, History
from tests.queries.cases import default_row

FLOW = "east-to-west"
EAST, WEST = "east", "west"


def ledger_of(history: History, target_log_start: int | None) -> MemorySnapshot:
    """The snapshot of a ledger that recorded the history, one round per offset sync."""
    ledger = MemoryLedger()
    ledger.append("writers", [_row("writers", event="claimed", flow=FLOW, source_cluster=EAST)])
    for round_, sync in enumerate(history.syncs, 1):
        ledger.append("offset_syncs", [_sync_row(sync, round_)])
    for committed_offset in offsets(history):
        ledger.append("checkpoints", [_checkpoint_row(committed_offset)])
    if target_log_start is not None:
        ledger.append("high_watermarks", [_watermark_row(target_log_start)])
    return ledger.at(ledger.latest())


def offsets(history: History) -> range:
    return range(max(history.source_start - 2, 0), history.source_end + 3)


def group_of(committed_offset: int) -> str:
    return f"{committed_offset:06}"


def _row(table: str, **values: object) -> Row:
    return {**default_row(TABLE_BY_NAME[table].columns), **values}


def _sync_row(sync: OffsetSync, round_: int) -> Row:
    values = {name: value for name, value in asdict(sync).items() if name not in ("source", "target")}
    for side, at in (("source", sync.source), ("target", sync.target)):
        values |= {
            f"{side}_topic": at.topic,
            f"{side}_topic_id": at.topic_id,
            f"{side}_partition": at.partition,
        }
    values |= {"flow": FLOW, "source_cluster": EAST, "target_cluster": WEST}
    values |= {"writer": f"flow:{FLOW}", "writer_epoch": 1, "round": round_, "recorded_at_ms": round_ * 1000}
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


def _watermark_row(log_start: int) -> Row:
    return _row(
        "high_watermarks",
        cluster=WEST,
        topic=TARGET.topic,
        topic_id=TARGET.topic_id,
        partition=TARGET.partition,
        log_start=log_start,
    )
