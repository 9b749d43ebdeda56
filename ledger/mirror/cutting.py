"""A batch that the target refuses is cut, down to the record that it cannot take; the others are copied.

The map stays exact: each part covers the source offsets of its own records. Only the bytes are not those of the source.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ledger.errors import ProtocolError
from ledger.facts.syncs import Gap, GapCause, TopicPartition
from ledger.kafka.batches import Record, decode, encode, read_header
from ledger.kafka.record_fields import key_state, with_headers
from ledger.kafka.requests import ErrorCode
from ledger.mirror.steps import Copy, Skip, Step

CUTTABLE = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)
"""Errors that say something of a record, or of the size of a batch."""
BY_SIZE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

# Parts --------------------------------------------------------------------------------------------


def records_of(step: Copy) -> list[tuple[int, Record]]:
    """The records of a step, each with its source offset. Raises `ProtocolError` for what is no batch."""
    return list(zip(copied_offsets(step), decode(read_header(step.batch), step.batch), strict=True))


def copied_offsets(step: Copy) -> Iterator[int]:
    """Source offsets of the records of a step."""
    start = step.source_start
    for gap in step.gaps:
        yield from range(start, gap.source_start)
        start = gap.source_end
    yield from range(start, step.source_end)


def cut(step: Copy, at: Collection[int]) -> list[Step]:
    """The step in parts that end before these source offsets. Raises `ProtocolError` for what is no batch."""
    return _parts(step, records_of(step), step.gaps, at)


def cut_behind(step: Copy, records: int) -> list[Step]:
    """The step in two parts, the first one with so many records."""
    return cut(step, [list(copied_offsets(step))[records]]) if 0 < records < step.count else [step]


HEADERS = "mirror-ledger."
"""Before the names of headers that say where a dead letter is from."""


def dead_letter(step: Step, source: TopicPartition, offset: int, cause: str) -> Step | None:
    """What of a step is the record at this offset, with headers of where it is from; None where it is elsewhere.

    Raises `ProtocolError` for what is no batch.
    """
    if isinstance(step, Skip):
        is_there = step.gap.source_start <= offset < step.gap.source_end
        return replace(step, gap=Gap(offset, offset + 1, step.gap.cause)) if is_there else None
    for part in cut(step, (offset, offset + 1)):
        if isinstance(part, Copy) and part.source_start == offset:
            [(_, record)] = records_of(part)
            about = {
                "topic": source.topic,
                "topic_id": source.topic_id,
                "partition": source.partition,
                "offset": offset,
                "timestamp": record.timestamp,
                "cause": cause,
            }
            headers = [(f"{HEADERS}{name}".encode(), str(value).encode()) for name, value in about.items()]
            batch = encode(
                [record._replace(content=with_headers(record.content, headers))], codec=part.attributes
            )
            return replace(part, batch=memoryview(batch))
        if isinstance(part, Skip) and part.gap.source_start == offset:
            return part
    return None


def without_keyless(step: Copy) -> list[Step]:
    """The step less its records without a key, which are gaps; itself where each has one."""
    records = records_of(step)
    kept = [(offset, record) for offset, record in records if key_state(record.content).key is not None]
    if len(kept) == len(records):
        return [step]
    left = {offset for offset, _ in records} - {offset for offset, _ in kept}
    keyless = [Gap(offset, offset + 1, GapCause.KEYLESS) for offset in left]
    return _parts(step, kept, _joined([*step.gaps, *keyless]), ())


def _joined(gaps: Collection[Gap]) -> tuple[Gap, ...]:
    """In order; those of one cause that touch each other are one."""
    joined: list[Gap] = []
    for gap in sorted(gaps, key=lambda gap: gap.source_start):
        last = joined[-1] if joined else None
        if last is not None and (last.source_end, last.cause) == (gap.source_start, gap.cause):
            joined[-1] = Gap(last.source_start, gap.source_end, gap.cause)
        else:
            joined.append(gap)
    return tuple(joined)


def _parts(
    step: Copy, records: list[tuple[int, Record]], gaps: Collection[Gap], at: Collection[int]
) -> list[Step]:
    inside = sorted({offset for offset in at if step.source_start < offset < step.source_end})
    edges = [step.source_start, *inside, step.source_end]
    return [part for edge in pairwise(edges) for part in _part(step, records, gaps, *edge)]


def _part(
    step: Copy, records: list[tuple[int, Record]], gaps: Collection[Gap], start: int, end: int
) -> Iterator[Step]:
    inside = tuple(
        Gap(max(gap.source_start, start), min(gap.source_end, end), gap.cause)
        for gap in gaps
        if gap.source_start < end and gap.source_end > start
    )
    kept = [record for offset, record in records if start <= offset < end]
    if not kept:
        yield from (Skip(gap, step.leader_epoch) for gap in inside)
        return
    encoded = memoryview(encode(kept, codec=read_header(step.batch).codec))
    header = read_header(encoded)
    yield Copy(
        source_start=start,
        source_end=end,
        batch=encoded,
        attributes=header.attributes,
        count=header.count,
        gaps=inside,
        raw=False,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        leader_epoch=step.leader_epoch,
    )


# Refusals -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cutting:
    """What the target has refused of one partition in a task, and what is sent in its place.

    `leaves_out_keyless`: the source's cleaner removes records without a key, so the target need not have them.
    `reason`: which batch was refused last for its size, in words.
    """

    leaves_out_keyless: bool
    reason: str | None = None
    _smallest_bytes: int | None = None
    _at: set[int] = field(default_factory=set)
    _is_without_keyless: bool = False

    @property
    def has_refused(self) -> bool:
        """Something is sent otherwise than it came."""
        return self._is_without_keyless or self._smallest_bytes is not None or bool(self._at)

    def refused(self, step: Copy, code: int, detail: str, *, indexes: Collection[int]) -> bool:
        """Take note of a refusal; False where it is of one record alone, which nothing can be sent in place of.

        `indexes`: of the records in the batch that the target named.
        """
        try:
            records = records_of(step)
            has_keyless = any(key_state(record.content).key is None for _, record in records)
        except ProtocolError:
            return False
        if code == ErrorCode.INVALID_RECORD and self.leaves_out_keyless and has_keyless:
            self._is_without_keyless = True
            return True
        offsets = [offset for offset, _ in records]
        if len(offsets) == step.source_end - step.source_start == 1:
            return False
        if code in BY_SIZE and len(offsets) > 1:
            self._smallest_bytes = min(len(step.batch), self._smallest_bytes or len(step.batch))
            self.reason = f"of {len(offsets)} records in {len(step.batch)} B with error {detail}"
        elif named := [offsets[index] for index in indexes if 0 <= index < len(offsets)]:
            self._at.update(edge for offset in named for edge in (offset, offset + 1))
        elif len(offsets) > 1:
            self._at.add(offsets[len(offsets) // 2])
        else:
            self._at.update((offsets[0], offsets[0] + 1))
        return True

    def parts(self, step: Copy) -> list[Step]:
        """What is sent in place of a step; itself where nothing speaks against it."""
        try:
            if self._is_without_keyless and (kept := without_keyless(step)) != [step]:
                return kept
            if any(step.source_start < offset < step.source_end for offset in self._at):
                return cut(step, self._at)
            is_too_large = self._smallest_bytes is not None and len(step.batch) >= self._smallest_bytes
            return cut_behind(step, step.count // 2) if is_too_large else [step]
        except ProtocolError:
            return [step]
