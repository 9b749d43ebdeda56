"""Generated histories as ledgers: one flow, partitions with a history each, and a group committed on every offset."""

from collections.abc import Sequence
from dataclasses import asdict

from ledger.offsets.maps import OffsetMap
from ledger.offsets.translation import Commit, KnownMap, SeenEnd, truncations_of
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot, Row
from tests.support.histories import SOURCE, History, Recorded
from tests.support.ledger_rows import row

FLOW = "east-to-west"
_TOLD_AGAIN_MS = 9_000_000
EAST, WEST = "east", "west"


def ledger_of(history: History, target_log_start: int | None) -> MemorySnapshot:
    """The snapshot of a ledger that recorded the history of partition 0."""
    return ledger_of_partitions([(history, target_log_start)])


def ledger_of_partitions(partitions: Sequence[tuple[History, int | None]]) -> MemorySnapshot:
    """History and target log start of each partition, the latest rows first: no reader may lean on that."""
    ledger = MemoryLedger()
    ledger.append("writers", [row("writers", event="claimed", flow=FLOW, source_cluster=EAST)])
    for partition, (history, target_log_start) in reversed(list(enumerate(partitions))):
        syncs = [sync_row(partition, recorded) for recorded in reversed(history.recorded)]
        ledger.append("offset_syncs", syncs)
        commits = [row for committed in offsets(history) for row in _checkpoint_rows(partition, committed)]
        ledger.append("checkpoints", commits)
        if target_log_start is not None:
            ledger.append("high_watermarks", [_watermark_row(partition, history, target_log_start)])
        ledger.append("high_watermarks", [_seen_row(partition, end) for end in seen_ends(history)])
    return ledger.at(ledger.latest())


def offsets(history: History) -> range:
    return range(max(history.source_start - 2, 0), history.furthest + 3)


def last_but_one_append_ms(histories: Sequence[History]) -> int:
    """Of the flow, which has claimed at 0."""
    times = {0, *(recorded_at_ms(recorded) for history in histories for recorded in history.recorded)}
    return sorted(times)[-2]


def known_map(
    history: History, target_log_start: int | None, *, last_but_one_append_ms: int | None = None
) -> KnownMap:
    """What the ledger says of one history."""
    return KnownMap(
        offset_map=OffsetMap.from_syncs(FLOW, history.syncs),
        target_log_start=target_log_start,
        truncations=truncations_of(
            ((recorded.sync, recorded_at_ms(recorded)) for recorded in history.recorded), seen_ends(history)
        ),
        last_but_one_append_ms=last_but_one_append_ms,
    )


def seen_ends(history: History) -> list[SeenEnd]:
    """Ends of the source that a recorder saw: some within what was copied, some beyond."""
    return [SeenEnd(epoch, (history.furthest * 7 + epoch * 31) % 90) for epoch in range(0, 6, 2)]


def commit_at(committed_offset: int) -> Commit:
    """The commit of the group of an offset: with some leader epoch, or without and made at some time."""
    return Commit(
        offset=committed_offset,
        topic_id=SOURCE.topic_id,
        leader_epoch=committed_offset % 3 or None,
        made_after_ms=(committed_offset % 5 + 1) * 500_000 if committed_offset % 2 else None,
        first_read_ms=committed_offset % 7 * 500_000,
    )


def recorded_at_ms(recorded: Recorded) -> int:
    return recorded.writer_epoch * 1_000_000 + recorded.round


def group_of(committed_offset: int) -> str:
    return f"{committed_offset:06}"


def sync_row(partition: int, recorded: Recorded, *, flow: str = FLOW) -> Row:
    """A row of `offset_syncs`; those of `FLOW` go from east to west, all others back."""
    sync = recorded.sync
    values = {name: value for name, value in asdict(sync).items() if name not in ("source", "target")}
    for side, at in (("source", sync.source), ("target", sync.target)):
        values |= {
            f"{side}_topic": at.topic,
            f"{side}_topic_id": at.topic_id,
            f"{side}_partition": partition,
        }
    source, target = (EAST, WEST) if flow == FLOW else (WEST, EAST)
    values |= {"flow": flow, "source_cluster": source, "target_cluster": target}
    values |= {"writer": f"flow:{flow}", "writer_epoch": recorded.writer_epoch, "round": recorded.round}
    values |= {"recorded_at_ms": recorded_at_ms(recorded)}
    return row("offset_syncs", **values)


def _checkpoint_rows(partition: int, committed_offset: int) -> list[Row]:
    """The commit of `commit_at`, and where the group had been before."""
    commit = commit_at(committed_offset)
    of_group = {
        "cluster": EAST,
        "group_id": group_of(committed_offset),
        "topic": SOURCE.topic,
        "topic_id": commit.topic_id,
        "partition": partition,
    }
    last = {"committed_offset": commit.offset, "leader_epoch": commit.leader_epoch}
    rows: list[Row] = [
        row("checkpoints", **of_group, **last, round=2, read_at_ms=commit.first_read_ms),
        row("checkpoints", **of_group, **last, round=3, read_at_ms=_TOLD_AGAIN_MS),
    ]
    if commit.made_after_ms is not None:
        before = {"committed_offset": commit.offset + 1, "round": 1, "read_at_ms": commit.made_after_ms}
        rows.append(row("checkpoints", **of_group, **before))
    return rows


def _watermark_row(partition: int, history: History, log_start: int) -> Row:
    return row(
        "high_watermarks",
        cluster=WEST,
        topic=history.target.topic,
        topic_id=history.target.topic_id,
        partition=partition,
        log_start=log_start,
    )


def _seen_row(partition: int, end: SeenEnd) -> Row:
    return row(
        "high_watermarks",
        cluster=EAST,
        topic=SOURCE.topic,
        topic_id=SOURCE.topic_id,
        partition=partition,
        leader_epoch=end.leader_epoch,
        high_watermark=end.high_watermark,
    )
