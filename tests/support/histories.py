"""Generated histories of one partition, and the record pairs behind them; also as ledgers."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from ledger.facts.syncs import Gap, GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot, Row
from tests.support.algebra.translation import Commit, SeenEnd
from tests.support.ledger_rows import row

Examples = TypeVar("Examples")


def examples(*, check: Examples, soak: Examples) -> Examples:
    """How many examples, or which parameters, a test has: few in each run, all of them in the long tests.

    These draw examples anew in each run, by another profile of hypothesis (`make soak` names the folders).
    """
    return check if settings.default is not None and settings.default.derandomize else soak


SOURCE = TopicPartition("orders", "source-id", 0)
TARGET = TopicPartition("east.orders", "target-id", 0)


def copied(source_start: int, source_end: int, target_start: int, *gaps: Gap) -> OffsetSync:
    """A copied offset sync; its target range follows from the gaps."""
    records = source_end - source_start - sum(gap.source_end - gap.source_start for gap in gaps)
    return _sync(source_start, source_end, target_start, records, gaps, SyncKind.COPIED, None)


def adopted(source_start: int, source_end: int, target_start: int, *gaps: Gap) -> OffsetSync:
    """A stretch that was found at the target, written by something else."""
    return replace(copied(source_start, source_end, target_start, *gaps), kind=SyncKind.ADOPTED)


def lost(source_start: int, source_end: int, target_start: int) -> OffsetSync:
    """A stretch that was gone before it could be copied."""
    return _sync(source_start, source_end, target_start, 0, (), SyncKind.LOST, SyncCause.RETENTION)


def started(source_start: int, target_start: int) -> OffsetSync:
    """Where the flow began with the partition."""
    return _sync(source_start, source_start, target_start, 0, (), SyncKind.STARTED, SyncCause.EARLIEST)


def superseded(
    source_start: int, source_end: int, target_start: int, cause: SyncCause = SyncCause.RESYNC
) -> OffsetSync:
    """What holds no longer; the flow goes on at `source_start` and `target_start`."""
    return _sync(source_start, source_end, target_start, 0, (), SyncKind.SUPERSEDED, cause)


def unpaired(source_start: int, target_start: int, records: int) -> OffsetSync:
    """Records of the flow that cannot be paired; it stood at `source_start`."""
    return _sync(
        source_start, source_start, target_start, records, (), SyncKind.UNPAIRED, SyncCause.LOST_SOURCE
    )


def expired(source_start: int, target_start: int, target_end: int) -> OffsetSync:
    """The target's log begins at `target_end` by now; what of the flow lay below, nobody can tell."""
    row = _sync(source_start, source_start, target_start, 0, (), SyncKind.UNPAIRED, SyncCause.RETENTION)
    return replace(row, target_end=target_end)


def _sync(
    source_start: int,
    source_end: int,
    target_start: int,
    records: int,
    gaps: tuple[Gap, ...],
    kind: SyncKind,
    cause: SyncCause | None,
) -> OffsetSync:
    return OffsetSync(
        source=SOURCE,
        target=TARGET,
        source_leader_epoch=None,
        source_start=source_start,
        source_end=source_end,
        target_start=target_start,
        target_end=target_start + records,
        first_sequence=0,
        gaps=gaps,
        kind=kind,
        cause=cause,
        recovered=False,
        first_timestamp_ms=None,
        last_timestamp_ms=None,
        records=records,
        bytes=records * 100,
        checksum=None,
        raw_batches=1,
        record_path_batches=0,
    )


@dataclass(frozen=True)
class Recorded:
    """An offset sync and the stamp that orders it."""

    writer_epoch: int
    round: int
    sync: OffsetSync


@dataclass
class History:
    """The rows of a partition in the order of recording, and what holds of them record by record.

    `pairs`, `gaps`, `lost` and `unpaired` (source position, target start, target end) are of the target
    incarnation that the flow went to last. `old`: source and target offset of copies that were taken out and are there
    still. `furthest` is the highest source offset ever reached.
    """

    source_start: int
    target_start: int
    recorded: list[Recorded] = field(default_factory=list)
    pairs: dict[int, int] = field(default_factory=dict)
    gaps: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    unpaired: list[tuple[int, int, int]] = field(default_factory=list)
    old: list[tuple[int, int]] = field(default_factory=list)
    source: TopicPartition = SOURCE
    target: TopicPartition = TARGET
    leader_epoch: int | None = None
    writer_epoch: int = 1
    round: int = 1

    def __post_init__(self) -> None:
        self.source_end = self.furthest = self.source_start
        self.target_end = self.target_start
        self.sequence = 0

    @property
    def syncs(self) -> list[OffsetSync]:
        return [row.sync for row in self.recorded]

    def earlier(self, log_start: int | None = None) -> dict[int, int]:
        """By source offset the first earlier copy of what is not copied again; none lies below the log start."""
        return {
            source: target
            for source, target in sorted(self.old, reverse=True)
            if (source in self.lost or source >= self.source_end) and target >= (log_start or 0)
        }

    def start(self) -> None:
        self._record(started(self.source_end, self.target_end))

    def copy_round(self, marks: list[bool], foreign: int, *, is_adopted: bool = False) -> None:
        """A round over the next source offsets: True is a record. Others wrote `foreign` records before it."""
        causes = (GapCause.CONTROL, GapCause.ABORTED)
        offsets = range(self.source_end, self.source_end + len(marks))
        told = [
            None if mark else causes[offset // 3 % 2] for offset, mark in zip(offsets, marks, strict=True)
        ]
        self.copy_stretch(told, foreign, is_adopted=is_adopted)

    def copy_stretch(
        self, causes: Sequence[GapCause | None], foreign: int, *, is_adopted: bool = False
    ) -> None:
        """The next source offsets, each a record or why it is none."""
        start, target_start = self.source_end, self.target_end + foreign
        marks = [cause is None for cause in causes]
        for offset, is_record in enumerate(marks, start):
            if is_record:
                self.pairs[offset] = target_start + sum(marks[: offset - start])
            else:
                self.gaps.add(offset)
        said = adopted if is_adopted else copied
        self._record(said(start, start + len(marks), target_start, *gaps_of(start, causes)))

    def lose(self, count: int) -> None:
        self.lost.update(range(self.source_end, self.source_end + count))
        self._record(lost(self.source_end, self.source_end + count, self.target_end))

    def find_unpaired(self, count: int, foreign: int) -> None:
        start = self.target_end + foreign
        self.unpaired.append((self.source_end, start, start + count))
        self._record(unpaired(self.source_end, start, count))

    def expire(self, count: int, own: int) -> None:
        """So many target offsets are deleted before the flow looks; `own`: as many of them it had written."""
        self.sequence += own
        self._record(expired(self.source_end, self.target_end, self.target_end + count))

    def supersede(self, source_start: int, target_start: int, cause: SyncCause = SyncCause.RESYNC) -> None:
        """All from `source_start` on is void: the source was truncated, or is to be copied again."""
        self._record(superseded(source_start, self.source_end, target_start, cause))
        self.old += [pair for pair in self.pairs.items() if pair[0] >= source_start]
        self.old = [
            (source, target)
            for source, target in self.old
            if target < target_start and not (source >= source_start and cause is SyncCause.SOURCE_TRUNCATED)
        ]
        self.pairs = {source: target for source, target in self.pairs.items() if source < source_start}
        self.gaps = {offset for offset in self.gaps if offset < source_start}
        self.lost = {offset for offset in self.lost if offset < source_start}
        self.unpaired = [
            stretch
            for stretch in self.unpaired
            if stretch[0] < source_start or (stretch[0] == source_start and stretch[2] <= target_start)
        ]
        self.source_start = min(self.source_start, source_start)
        self.source_end, self.target_end = source_start, target_start
        self.next_round()

    def truncate_target(self, target_end: int) -> None:
        """The target ends here now: all from the first record on that it lost is to be copied again."""
        gone = [source for source, target in self.pairs.items() if target >= target_end]
        gone += [source for source, _, end in self.unpaired if end > target_end]
        self.supersede(min(gone, default=self.source_end), target_end, SyncCause.TARGET_TRUNCATED)

    def recreate_target(self, source_start: int) -> None:
        """The target has another topic id, is empty, and gets the source from `source_start` on."""
        self.target = replace(self.target, topic_id=self.target.topic_id + "-next")
        self.source_start, self.target_start = source_start, 0
        self.pairs, self.gaps, self.lost, self.unpaired, self.old = {}, set(), set(), [], []
        self.supersede(source_start, 0, SyncCause.TARGET_RECREATED)

    def next_round(self, *, is_restart: bool = False) -> None:
        self.writer_epoch += is_restart
        self.round = 1 if is_restart else self.round + 1

    def _record(self, sync: OffsetSync) -> None:
        placed = replace(
            sync,
            source=self.source,
            target=self.target,
            source_leader_epoch=self.leader_epoch,
            first_sequence=self.sequence,
        )
        self.recorded.append(Recorded(self.writer_epoch, self.round, placed))
        self.source_end, self.target_end = sync.source_end, sync.target_end
        self.furthest = max(self.furthest, self.source_end)
        self.sequence += sync.records if sync.kind in (SyncKind.COPIED, SyncKind.UNPAIRED) else 0


def gaps_of(start: int, causes: Sequence[GapCause | None]) -> list[Gap]:
    """Neighbouring gaps of different causes stay apart, as a writer would list them."""
    gaps: list[Gap] = []
    for offset, cause in enumerate(causes, start):
        if cause is None:
            continue
        if gaps and gaps[-1].source_end == offset and gaps[-1].cause is cause:
            gaps[-1] = Gap(gaps[-1].source_start, offset + 1, cause)
        else:
            gaps.append(Gap(offset, offset + 1, cause))
    return gaps


def random_history(chance: random.Random) -> History:
    """One to ten events, from any start, over several rounds and writer epochs."""
    history = History(chance.randrange(20), chance.randrange(40))
    widest_foreign = chance.choice([0, 3])
    if chance.random() < 0.5:
        history.start()
    for _ in range(chance.randint(1, 10)):
        _happen(history, chance, chance.randint(0, widest_foreign))
        if chance.random() < 0.7:
            history.next_round(is_restart=chance.random() < 0.3)
    return history


def _happen(history: History, chance: random.Random, foreign: int) -> None:
    """One event; most of them copy."""
    match chance.choices(range(8), weights=[8, 3, 2, 2, 2, 1, 1, 1])[0]:
        case 0:
            history.leader_epoch = _next_epoch(history.leader_epoch, chance)
            history.copy_round(_marks(chance), foreign)
        case 1:
            history.lose(chance.randint(1, 4))
        case 2:
            history.find_unpaired(chance.randint(1, 4), foreign)
        case 3:
            history.copy_round(_marks(chance), foreign, is_adopted=True)
        case 4:
            lowest = max(history.source_start - 3, 0)
            cause = chance.choice([SyncCause.RESYNC, SyncCause.SOURCE_TRUNCATED])
            history.supersede(chance.randint(lowest, history.source_end), history.target_end + foreign, cause)
        case 5:
            history.truncate_target(chance.randint(history.target_start, history.target_end))
        case 6:
            history.recreate_target(chance.randint(0, history.source_end))
        case 7:
            count = chance.randint(1, 5)
            history.expire(count, chance.randint(0, count))


def _next_epoch(before: int | None, chance: random.Random) -> int | None:
    """Mostly the same; nobody knows it at times."""
    return chance.choice([before, before, before, None, (before or 0) + 1])


def _marks(chance: random.Random) -> list[bool]:
    return [chance.random() < 0.7 for _ in range(chance.randint(1, 9))]


def histories() -> st.SearchStrategy[History]:
    """Everything that a ledger can say of one partition."""
    return st.randoms(use_true_random=False).map(random_history)


@st.composite
def plain_histories(draw: st.DrawFn) -> History:
    """One to six rounds and losses, from any start, on an exclusive or a shared target."""
    history = History(draw(st.integers(0, 20)), draw(st.integers(0, 40)))
    shared = draw(st.booleans())
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 3)) == 0:
            history.lose(draw(st.integers(1, 4)))
        else:
            marks = draw(st.lists(st.sampled_from([True, True, False]), min_size=1, max_size=9))
            history.copy_round(marks, draw(st.integers(0, 3)) if shared else 0)
    return history


# -- Histories as ledgers --------------------------------------------------------------------------

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
