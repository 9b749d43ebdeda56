"""Generated histories of one partition: what a flow could have recorded, and the record pairs behind it."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from ledger.domain.facts import Gap, GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition

SOURCE = TopicPartition("orders", "source-id", 0)
TARGET = TopicPartition("east.orders", "target-id", 0)


def copied(source_start: int, source_end: int, target_start: int, *gaps: Gap) -> OffsetSync:
    """A copied offset sync; its target range follows from the gaps."""
    records = source_end - source_start - sum(gap.source_end - gap.source_start for gap in gaps)
    return _sync(source_start, source_end, target_start, records, gaps, SyncKind.COPIED, None)


def lost(source_start: int, source_end: int, target_start: int) -> OffsetSync:
    """A stretch that was gone before it could be copied."""
    return _sync(source_start, source_end, target_start, 0, (), SyncKind.LOST, SyncCause.RETENTION)


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


@dataclass
class History:
    """The offset syncs of a partition, and beside them every record pair, gap offset and lost offset."""

    source_start: int
    target_start: int
    syncs: list[OffsetSync] = field(default_factory=list)
    pairs: dict[int, int] = field(default_factory=dict)
    gaps: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.source_end = self.source_start
        self.target_end = self.target_start

    def copy_round(self, marks: list[bool], foreign: int) -> None:
        """A round over the next source offsets: True is a record. Others wrote `foreign` records before it."""
        start, target_start = self.source_end, self.target_end + foreign
        for offset, is_record in enumerate(marks, start):
            if is_record:
                self.pairs[offset] = target_start + sum(marks[: offset - start])
            else:
                self.gaps.add(offset)
        self._record(copied(start, start + len(marks), target_start, *_gaps(start, marks)))

    def lose(self, count: int) -> None:
        self.lost.update(range(self.source_end, self.source_end + count))
        self._record(lost(self.source_end, self.source_end + count, self.target_end))

    def _record(self, sync: OffsetSync) -> None:
        self.syncs.append(sync)
        self.source_end, self.target_end = sync.source_end, sync.target_end


def _gaps(start: int, marks: list[bool]) -> list[Gap]:
    """Neighbouring gaps of different causes stay apart, as a writer would list them."""
    causes = (GapCause.CONTROL, GapCause.ABORTED)
    gaps: list[Gap] = []
    for offset, is_record in enumerate(marks, start):
        cause = causes[offset // 3 % 2]
        if is_record:
            continue
        if gaps and gaps[-1].source_end == offset and gaps[-1].cause is cause:
            gaps[-1] = Gap(gaps[-1].source_start, offset + 1, cause)
        else:
            gaps.append(Gap(offset, offset + 1, cause))
    return gaps


@st.composite
def histories(draw: st.DrawFn) -> History:
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
