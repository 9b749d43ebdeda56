"""Generated histories of a partition that a copier has mirrored, at least once, and what is left of both sides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hypothesis import strategies as st

from ledger.adopt.reading import LogRecord
from ledger.facts.syncs import Gap, GapCause
from ledger.kafka import batches


def encoded(key: bytes | None, value: bytes | None) -> bytes:
    """Key, value and no headers, as a record batch holds them."""
    parts = [
        batches.signed(-1) if part is None else batches.signed(len(part)) + part for part in (key, value)
    ]
    return b"".join(parts) + batches.signed(0)


@dataclass(frozen=True)
class MemoryLog:
    """Implements `ReadableLog` on a list."""

    start: int
    end: int
    records: Sequence[LogRecord]

    def read(self, offset: int) -> Iterator[LogRecord]:
        """Gaps are what lies between the records."""
        for record in self.records:
            if record.offset < offset:
                continue
            gaps = (Gap(offset, record.offset, GapCause.COMPACTED),) if record.offset > offset else ()
            yield LogRecord(
                record.offset,
                record.timestamp,
                record.content,
                record.cause,
                record.leader_epoch,
                gaps,
                record.stamped,
            )
            offset = record.offset + 1


@dataclass(frozen=True)
class History:
    """Both sides as they are now; `origins`: target offset to the source offset that it was copied from."""

    source: MemoryLog
    target: MemoryLog
    origins: dict[int, int]
    dropped: frozenset[int]
    is_unique: bool
    is_source_compacted: bool
    is_target_compacted: bool
    target_lost_beginning: bool

    def readable(self) -> list[LogRecord]:
        """What readers of the source see, whether the flow would copy it or not."""
        return [record for record in self.source.records if record.cause is not GapCause.ABORTED]

    def has_copied_twin(self) -> bool:
        """Whether an aborted record whose copy is left equals one that readers see, time and content."""
        readable = {(record.timestamp, record.content) for record in self.readable()}
        copied = set(self.origins.values())
        aborted = [record for record in self.source.records if record.cause is GapCause.ABORTED]
        return any(
            record.offset in copied and (record.timestamp, record.content) in readable for record in aborted
        )

    def first_copies(self) -> dict[int, int]:
        """Source offset to the first target offset left that it was copied to."""
        copies: dict[int, int] = {}
        for target in sorted(self.origins):
            copies.setdefault(self.origins[target], target)
        return copies


@st.composite
def histories(draw: st.DrawFn, *, unique: bool, longest: int = 60) -> History:
    """Transactions, restarts that repeat, stretches left out, retention and cleaning on both sides."""
    count = draw(st.integers(1, longest))
    written = _written(draw(st.lists(_ANY_RECORD, min_size=count, max_size=count)), unique)
    dropped = _dropped(draw, written)
    copied_causes = {None, *draw(st.sets(st.sampled_from([GapCause.ABORTED, GapCause.FILTERED])))}
    candidates = [
        record for record in written if record.offset not in dropped and record.cause in copied_causes
    ]
    copied = _copied(draw, candidates)
    origins = {record.offset: origin for record, origin in copied}
    is_source_compacted, is_target_compacted = draw(st.booleans()), draw(st.booleans())
    source = _left(draw, written, cleaned=is_source_compacted)
    target = _left(draw, [record for record, _ in copied], cleaned=is_target_compacted)
    return History(
        source=source,
        target=target,
        origins={record.offset: origins[record.offset] for record in target.records},
        dropped=dropped,
        is_unique=unique,
        is_source_compacted=is_source_compacted,
        is_target_compacted=is_target_compacted,
        target_lost_beginning=target.start > 0,
    )


_MARKERS = (0, 0, 0, 0, 1, 2)  # of transactions, before the record
_CAUSES = (None, None, None, None, GapCause.ABORTED, GapCause.FILTERED)
_KEYS = (b"0", b"1", b"2", b"3", b"4")
_VALUES = (*(b"0", b"1") * 9, None, None)
_REPEATED_TIMES = (0, 1)
_CHOICES = (_MARKERS, _CAUSES, _KEYS, _VALUES, _REPEATED_TIMES)
_ANY_RECORD = st.integers(0, prod(map(len, _CHOICES)) - 1)
"""A place in the product of all choices: one draw for a record takes a fifth of the time of five."""


def _written(places: Sequence[int], unique: bool) -> list[LogRecord]:
    records, offset = [], 0
    for number, place in enumerate(places):
        place, markers = divmod(place, len(_MARKERS))
        place, cause = divmod(place, len(_CAUSES))
        place, key = divmod(place, len(_KEYS))
        repeated, value = divmod(place, len(_VALUES))
        offset += _MARKERS[markers]
        timestamp = 1_000 + (number if unique else _REPEATED_TIMES[repeated])
        content = encoded(_KEYS[key], _VALUES[value])
        records.append(LogRecord(offset, timestamp, content, _CAUSES[cause], 0))
        offset += 1
    return records


def _dropped(draw: st.DrawFn, written: list[LogRecord]) -> frozenset[int]:
    """The beginning, when the copier began late, and perhaps a stretch in the middle."""
    late = draw(st.sampled_from([0, 0, draw(st.integers(0, len(written)))]))
    start = draw(st.integers(0, len(written)))
    length = draw(st.sampled_from([0, 0, 1, 5]))
    left_out = [*written[:late], *written[start : start + length]]
    return frozenset(record.offset for record in left_out)


_ONE_IN_SIX, _ONE_IN_TEN = 6, 10
_COPY_EVENTS = st.integers(0, _ONE_IN_SIX * _ONE_IN_TEN - 1).map(
    lambda event: _ONE_IN_SIX * _ONE_IN_TEN - 1 - event
)
"""Whether somebody else's record comes before a copy, and whether the copier starts again after it."""


def _copied(draw: st.DrawFn, candidates: list[LogRecord]) -> list[tuple[LogRecord, int]]:
    """Records at the target with the source offset of each; the copier may stop early, and start again."""
    copied: list[tuple[LogRecord, int]] = []
    position, offset = 0, 0
    until = draw(st.sampled_from([len(candidates), draw(st.integers(0, len(candidates)))]))
    restarts = draw(st.integers(0, 2))
    while position < until:
        original = candidates[position]
        event = draw(_COPY_EVENTS)
        offset += event % _ONE_IN_SIX == 0
        copied.append((LogRecord(offset, original.timestamp, original.content), original.offset))
        position, offset = position + 1, offset + 1
        if restarts and event // _ONE_IN_SIX == 0:
            restarts -= 1
            position -= draw(st.integers(0, min(position, 20)))
    return copied


def _left(draw: st.DrawFn, records: list[LogRecord], *, cleaned: bool) -> MemoryLog:
    """What retention and the cleaner leave of a log."""
    end = records[-1].offset + 1 if records else 0
    start = draw(st.sampled_from([0, 0, draw(st.integers(0, end))]))
    kept = [record for record in records if record.offset >= start]
    if cleaned:
        dirty_from = draw(st.integers(start, end))
        last = {record.content[:2]: record.offset for record in kept if record.cause is not GapCause.ABORTED}
        kept = [
            record
            for record in kept
            if record.offset >= dirty_from or record.offset == last.get(record.content[:2])
        ]
    return MemoryLog(start, end, kept)
