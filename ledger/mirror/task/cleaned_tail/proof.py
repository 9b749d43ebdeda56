"""What follows from where runs begin (T3, T4): pairings, and from where on nothing is proved."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.mirror.task.cleaned_tail.runs import Run, place_runs, runs_of
from ledger.mirror.task.cleaned_tail.sides import Left, SourceSide, TailRange, TargetSide


@dataclass(frozen=True, slots=True)
class Pairing:
    """Source offsets from `source_start` on, all of them copied, and where their records are, or were.

    Times are those of what is left of them on either side.
    """

    source_start: int
    place: TailRange
    first_timestamp: int
    last_timestamp: int

    @property
    def source_end(self) -> int:
        return self.source_start + self.place.count


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found out: pairings, and records of the target between them without a source, in order.

    They end with a batch. The flow continues at `source_end`; `rest` is what the tail holds behind, whole batches.
    `rest_holds_records`: not only such as a cleaner has emptied.
    """

    found: tuple[Pairing | TailRange, ...]
    source_end: int
    rest: tuple[TailRange, ...]
    rest_holds_records: bool


def prove(source: SourceSide, target: TargetSide) -> Proof:
    """Pair what can be paired without a guess, and say from where on nothing can."""
    runs = list(runs_of(source))
    place_runs(runs, source, target)
    last = _last_that_may_be_left_behind(runs, source.records, target)
    if last is None:
        return Proof((), source.start, tuple(target.batches), bool(target.records))
    spans = _joined(_spans(runs, source, last))
    pairings = [pairing for span in spans for pairing in _pairings(span, source, target)]
    end = pairings[-1].place.end
    rest = tuple(batch for batch in target.batches if batch.index >= end)
    return Proof(
        found=tuple(_with_what_lies_between(pairings, target)),
        source_end=source.records[last].at + 1,
        rest=rest,
        rest_holds_records=any(index >= rest[0].index for index in target.records) if rest else False,
    )


def _last_that_may_be_left_behind(runs: list[Run], records: Sequence[Left], target: TargetSide) -> int | None:
    """The last paired record behind which the flow may continue (T4); None: it has to continue at its position."""
    last_at_source = {left.key: number for number, left in enumerate(records)}
    last_at_target = {left.key: index for index, left in sorted(target.records.items())}
    missing: set[bytes | None] = set()
    last: int | None = None
    for run in runs:
        for number in range(run.first, run.first + run.count):
            index = None if run.index is None else run.index + number - run.first
            if index is not None and index >= target.end:
                return last
            key = records[number].key
            is_overtaken = last_at_source[key] == number and last_at_target.get(key) != index
            if index in target.records and (key is None or not is_overtaken):
                missing -= {key} - {None}
            else:
                missing.add(key)
            if index is not None and not missing and target.batch_with(index) is not None:
                last = number
    return last


@dataclass(frozen=True, slots=True)
class _Span:
    """Source offsets without a gap that were copied one behind the other."""

    source_start: int
    count: int
    index: int


def _spans(runs: list[Run], source: SourceSide, last: int) -> Iterator[_Span]:
    """Copied source offsets up to record number `last`, with holes of which counting says that all was copied."""
    at, index = (None if source.hole_before else source.start), 0
    for run in runs:
        if run.first > last:
            return
        if run.index is None:
            at = None
            continue
        for n in range(min(run.count, last + 1 - run.first)):
            record = source.records[run.first + n]
            if at is not None:
                holes = _holes_between(source, at, record.at)
                if sum(end - start for start, end in holes) == run.index + n - index:
                    for start, end in holes:
                        yield _Span(start, end - start, index)
                        index += end - start
            at, index = record.at + 1, run.index + n
            yield _Span(record.at, 1, index)
            index += 1


def _joined(spans: Iterator[_Span]) -> list[_Span]:
    joined: list[_Span] = []
    for span in spans:
        before = joined[-1] if joined else None
        if before is not None and (before.source_start + before.count, before.index + before.count) == (
            span.source_start,
            span.index,
        ):
            joined[-1] = _Span(before.source_start, before.count + span.count, before.index)
        else:
            joined.append(span)
    return joined


def _holes_between(source: SourceSide, start: int, end: int) -> list[tuple[int, int]]:
    if start == end:
        return []
    first = bisect_left(source.holes, start, key=lambda hole: hole[0])
    last = bisect_left(source.holes, end, lo=first, key=lambda hole: hole[0])
    return list(source.holes[first:last])


def _pairings(span: _Span, source: SourceSide, target: TargetSide) -> Iterator[Pairing]:
    """The parts of a span that lie in batches which are there still, and of which something is left."""
    end = span.index + span.count
    first = bisect_left(target.batches, span.index + 1, key=lambda batch: batch.end)
    for number in range(first, len(target.batches)):
        batch = target.batches[number]
        if batch.index >= end:
            return
        place = batch.part(max(batch.index, span.index), min(batch.end, end))
        start = span.source_start + place.index - span.index
        times = _times(source, target, start, place)
        if times:
            yield Pairing(start, place, times[0], max(times))


def _times(source: SourceSide, target: TargetSide, source_start: int, place: TailRange) -> list[int]:
    first = bisect_left(source.records, source_start, key=lambda record: record.at)
    last = bisect_left(source.records, source_start + place.count, lo=first, key=lambda record: record.at)
    if last > first:
        return [record.timestamp for record in source.records[first:last]]
    return [
        target.records[index].timestamp for index in range(place.index, place.end) if index in target.records
    ]


def _with_what_lies_between(pairings: Sequence[Pairing], target: TargetSide) -> Iterator[Pairing | TailRange]:
    """The pairings and, in their order, ranges between them that hold records (T3); to the end of the last batch."""
    following = 0
    for batch in target.batches:
        index = batch.index
        while following < len(pairings) and pairings[following].place.index < batch.end:
            pairing = pairings[following]
            yield from _holding_records(batch.part(index, pairing.place.index), target)
            yield pairing
            index = pairing.place.end
            following += 1
        if following == len(pairings):
            if index < batch.end:
                yield batch.part(index, batch.end)
            return
        yield from _holding_records(batch.part(index, batch.end), target)


def _holding_records(between: TailRange, target: TargetSide) -> Iterator[TailRange]:
    if any(index in target.records for index in range(between.index, between.end)):
        yield between
