"""A comparison's findings as offset syncs."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from ledger.domain.facts import Gap, OffsetSync, PartitionPair, SyncCause, SyncKind
from ledger.domain.offsets.offset_ranges import OffsetRange, overlapping, without
from ledger.operations.adoption.pairing_result import PairingResult, Run

_GAPS_PER_ROW = 10_000


def adoption_syncs(pair: PartitionPair, findings: PairingResult, *, target_end: int) -> list[OffsetSync]:
    """`started`, then what was paired and what is missing, in order; the last row ends at `target_end`.

    The rows tile the source from `findings.source_start` on (L1). What the target holds behind the last pair
    (repeats, others' records, markers) is `unpaired`, without a record of the flow. The flow has written
    nothing yet, so its next sequence is 0 in all rows.
    """
    start = findings.runs[0].target_start if findings.runs else target_end
    rows = _Rows(pair, source_start=findings.source_start, target_start=start)
    rows.add(SyncKind.STARTED, SyncCause.EARLIEST)
    for piece in _pieces(findings):
        rows.take(piece)
    rows.close()
    if rows.target_end != target_end:
        rows.target_end = target_end
        rows.add(SyncKind.UNPAIRED, SyncCause.ACCEPTED)
    return rows.finished


Piece = Run | Gap | OffsetRange


def _pieces(findings: PairingResult) -> Iterator[Piece]:
    """Runs, gaps and missing stretches (as ranges) in source order, without an overlap."""
    missing = list(findings.missing)
    sides: list[Iterable[Piece]] = [findings.runs, _without(findings.gaps, missing), missing]
    yield from merge(*sides, key=_start)


def _start(piece: Piece) -> int:
    return piece[0] if isinstance(piece, tuple) else piece.source_start


def _without(gaps: Iterable[Gap], taken_out: Sequence[OffsetRange]) -> Iterator[Gap]:
    for gap in gaps:
        out = overlapping(taken_out, gap.source_start, gap.source_end)
        for start, end in without((gap.source_start, gap.source_end), out):
            yield Gap(start, end, gap.cause)


class _Rows:
    """Offset syncs in the making; a row is one contiguous target range of one leader epoch of the source."""

    def __init__(self, pair: PartitionPair, *, source_start: int, target_start: int) -> None:
        self._pair = pair
        self.finished: list[OffsetSync] = []
        self.target_start = self.target_end = target_start
        self._source_start = self._source_end = source_start
        self._open()

    def _open(self) -> None:
        self._source_start = self._source_end
        self.target_start = self.target_end
        self._gaps: list[Gap] = []
        self._runs: list[Run] = []

    def take(self, piece: Piece) -> None:
        match piece:
            case Run():
                self._take_run(piece)
            case Gap():
                if len(self._gaps) >= _GAPS_PER_ROW:
                    self.close()
                self._gaps.append(piece)
                self._source_end = piece.source_end
            case (_, end):
                self.close()
                self._source_end = end
                self.add(SyncKind.LOST, SyncCause.SKIPPED)
                self._open()

    def _take_run(self, run: Run) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and (last.target_end, last.leader_epoch) != (run.target_start, run.leader_epoch):
            self.close()
        if not self._runs:
            self.target_start = run.target_start
        self._runs.append(run)
        self._source_end = run.source_end
        self.target_end = run.target_end

    def close(self) -> None:
        if self._source_end > self._source_start:
            self.add(SyncKind.ADOPTED, None)
        self._open()

    def add(self, kind: SyncKind, cause: SyncCause | None) -> None:
        runs = self._runs
        self.finished.append(
            OffsetSync(
                source=self._pair.source,
                target=self._pair.target,
                source_leader_epoch=runs[-1].leader_epoch if runs else None,
                source_start=self._source_start,
                source_end=self._source_end,
                target_start=self.target_start,
                target_end=self.target_end,
                first_sequence=0,
                gaps=tuple(self._gaps),
                kind=kind,
                cause=cause,
                first_timestamp_ms=runs[0].first_timestamp_ms if runs else None,
                last_timestamp_ms=max((run.last_timestamp_ms for run in runs), default=None),
                records=sum(run.records for run in runs),
            )
        )
