"""What a comparison has found of one partition: the map, and everything that has no partner."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ledger.domain.facts import Gap, GapCause
from ledger.domain.offsets.offset_ranges import OffsetRange, joined
from ledger.errors import MirrorLedgerError
from ledger.operations.adoption.records import LogRecord
from ledger.wire.record_fields import key_state

MAXIMUM_PIECES = 2_000_000
MAXIMUM_KEYS = 1_000_000


class RefusedPartitionError(MirrorLedgerError):
    """The partition cannot be taken over; the message says why and where. Nothing of it is recorded."""


class Ranges:
    """Offsets as half-open ranges, in any order, neighbours joined."""

    def __init__(self) -> None:
        self._ranges: list[OffsetRange] = []
        self.records = 0

    def add(self, offset: int) -> None:
        self.add_range(offset, offset + 1, records=1)

    def add_range(self, start: int, end: int, *, records: int) -> None:
        self.records += records
        if self._ranges and self._ranges[-1][1] == start:
            self._ranges[-1] = (self._ranges[-1][0], end)
        else:
            self._ranges.append((start, end))
            _check_pieces(len(self._ranges))

    def __iter__(self) -> Iterator[OffsetRange]:
        return joined(sorted(self._ranges))

    def __bool__(self) -> bool:
        return bool(self._ranges)


@dataclass(slots=True)
class Run:
    """Paired records that follow each other on both sides, of one leader epoch of the source."""

    source_start: int
    target_start: int
    records: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    leader_epoch: int | None

    @property
    def source_end(self) -> int:
        return self.source_start + self.records

    @property
    def target_end(self) -> int:
        return self.target_start + self.records


@dataclass(slots=True)
class PairingResult:
    """Collected in source order; the map is what `runs`, `gaps` and `missing` tile from `source_start` on.

    `before`: source records before the first pair. `missing`: source records between pairs that the target
    does not hold, without a cause that proves it harmless. `target_before`, `target_between`: target records
    without a source before the first pair, and between pairs. `duplicates`: the target's repeats.
    `uncommitted`: copies of source records that a flow leaves out. `foreign`: what follows the last pair and
    is neither.
    """

    is_target_compacted: bool
    source_start: int
    runs: list[Run] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    before: Ranges = field(default_factory=Ranges)
    missing: Ranges = field(default_factory=Ranges)
    ambiguous: Ranges = field(default_factory=Ranges)
    target_before: Ranges = field(default_factory=Ranges)
    target_between: Ranges = field(default_factory=Ranges)
    duplicates: Ranges = field(default_factory=Ranges)
    uncommitted: Ranges = field(default_factory=Ranges)
    foreign: Ranges = field(default_factory=Ranges)
    is_stamped: bool = False
    _replaced: dict[bytes, int] = field(default_factory=dict)

    @property
    def source_end(self) -> int:
        """Where the map ends: after the last pair, or a gap right behind it."""
        return max(
            self.runs[-1].source_end if self.runs else self.source_start,
            self.gaps[-1].source_end if self.gaps else self.source_start,
        )

    @property
    def paired(self) -> int:
        return sum(run.records for run in self.runs)

    def pair(self, source: LogRecord, target_offset: int) -> None:
        """The next source record of the map, and where its copy lies."""
        if not self.runs and self.before:
            self.source_start = source.offset
        else:
            self._add_gaps(source)
        last = self.runs[-1] if self.runs else None
        follows = (source.offset, target_offset, source.leader_epoch)
        if last is None or (last.source_end, last.target_end, last.leader_epoch) != follows:
            _check_pieces(len(self.runs))
            last = Run(
                source.offset, target_offset, 0, source.timestamp, source.timestamp, source.leader_epoch
            )
            self.runs.append(last)
        last.records += 1
        last.last_timestamp_ms = max(last.last_timestamp_ms, source.timestamp)
        if self._replaced and (key := key_state(source.content).key) is not None:
            self._replaced.pop(key, None)

    def leave_out(self, source: LogRecord) -> None:
        """The next source record has no copy that the map may name."""
        if not self.runs and (source.cause is None or self.before):
            self.before.add_range(source.offset, source.offset + 1, records=int(source.cause is None))
            self.gaps.clear()  # the map begins later
            return
        self._add_gaps(source)
        if source.cause is not None:
            self._add_gap(Gap(source.offset, source.offset + 1, source.cause))
        elif self.is_target_compacted:
            self._add_gap(Gap(source.offset, source.offset + 1, GapCause.COMPACTED))
            self._expect_replacement(source)
        else:
            self.missing.add(source.offset)

    def finish(self) -> None:
        """What the target's cleaner cannot have removed, because nothing replaces it, is missing."""
        for offset in sorted(self._replaced.values()):
            self.missing.add(offset)
        self._replaced.clear()

    def _expect_replacement(self, source: LogRecord) -> None:
        """A cleaner removes a record for a later one of its key, and in the end a tombstone for good."""
        state = key_state(source.content)
        if state.key is None:
            self.missing.add(source.offset)
        elif state.is_tombstone:
            self._replaced.pop(state.key, None)
        else:
            self._replaced[state.key] = source.offset
            if len(self._replaced) > MAXIMUM_KEYS:
                raise RefusedPartitionError(
                    f"more than {MAXIMUM_KEYS:,} keys are missing at the target up to source offset "
                    f"{source.offset}; nothing of the partition was recorded"
                )

    def _add_gaps(self, source: LogRecord) -> None:
        for gap in source.gaps:
            self._add_gap(gap)

    def _add_gap(self, gap: Gap) -> None:
        last = self.gaps[-1] if self.gaps else None
        if last is not None and last.source_end == gap.source_start and last.cause is gap.cause:
            self.gaps[-1] = Gap(last.source_start, gap.source_end, gap.cause)
        else:
            self.gaps.append(gap)
            _check_pieces(len(self.gaps))


def _check_pieces(pieces: int) -> None:
    if pieces > MAXIMUM_PIECES:
        raise RefusedPartitionError(
            f"the map of the partition has more than {MAXIMUM_PIECES:,} pieces; nothing of it was recorded"
        )
