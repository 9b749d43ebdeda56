"""Keys of compacted topics whose extras are replicated: of each its newest record is to lie last, at both sides.

Of a key the record counts that lies last in the log, and the copy of an extra comes behind all that is there. So an
extra is copied only where nobody has written its key where it goes to since that was promoted: else it is overtaken.
Where a cleaner may have removed a tombstone since, nobody knows. Both stay where they are, which is recorded before
anything is copied. Applications write meanwhile: a record of theirs behind which a copy of its key came is appended
once more. It is a record as any of theirs, by no flow's producer id: it comes back, whatever cleaners remove.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from ledger.adopt.key_resync import acknowledged
from ledger.adopt.reading import BothSides, LogRecord, both_sides
from ledger.changeover.deficits import Deficit
from ledger.changeover.extras import Extras, offsets_of
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import PreconditionError, RefusedPartitionError
from ledger.facts.direction import DIRECTION_AND_FENCE_KINDS, DirectionRows
from ledger.facts.extras import ExtrasPolicy, KeysRepaired, LocalCause
from ledger.facts.syncs import GapCause, OffsetRange, SyncCause, TopicPartition, holding, joined, without
from ledger.facts.tables import OPERATIONS, in_order
from ledger.kafka.batches import Record, encode, next_sequence, patch_for_target
from ledger.kafka.cluster import ClusterAdmin, LogReader, PartitionEnds, headers_between
from ledger.kafka.record_fields import key_state
from ledger.kafka.requests import ProduceItem
from ledger.words import counted, some_of

_ENDED_WITHIN_S = 60.0
_PAUSE_S = 0.5
_AT_MOST_READ = 20
_GZIP = 1
"""What applications had compressed stays below the limits of the topic."""
_BATCH_RECORDS, _BATCH_BYTES = 500, 256 * 1024

_Ends = Mapping[tuple[str, int], PartitionEnds]
_Digest = bytes
Say = Callable[[str], None]


def compacted(context: Context, flow: FlowConfig, topics: Collection[tuple[str, str]]) -> frozenset[str]:
    """Of topics of the source with the ones that they are copied to: target topics of which either is compacted."""
    sides = (flow.source, {source for source, _ in topics}), (flow.target, {target for _, target in topics})
    at_source, at_target = (
        {
            name
            for name, settings in context.cluster(alias).topic_settings(sorted(names)).read.items()
            if "compact" in settings.effective.get("cleanup.policy", "")
        }
        for alias, names in sides
    )
    return frozenset(target for source, target in topics if source in at_source or target in at_target)


# Before anything is copied ------------------------------------------------------------------------


def without_overtaken(
    context: Context,
    flow: FlowConfig,
    found: Sequence[Extras],
    ends: _Ends,
    stood: Mapping[TopicPartition, int],
) -> tuple[list[Extras], list[str]]:
    """What may be copied of extras of compacted topics, and what is left out, in words.

    What is left out is recorded. `ends`: of the target; `stood`: by its partition from where on others have written.
    Raises `PreconditionError` where a log cannot be read.
    """
    with both_sides(context, flow) as logs:
        left_out = {one.partition: _left_out(context, logs, flow, one, ends, stood) for one in found}
    decisions, words, kept = [], [], []
    for one in found:
        apart = {cause: ranges for cause, ranges in left_out[one.partition].items() if ranges}
        for cause, ranges in apart.items():
            stays = replace(one, ranges=ranges)
            decisions.append(stays.decided(logs.source.cluster_id(), ExtrasPolicy.KEEP_LOCAL, cause))
            words.append(f"{one.partition.words}: {_listed(ranges)} {_WHY[cause].format(flow=flow)}")
        known = joined(sorted(each for ranges in apart.values() for each in ranges))
        if ranges := tuple(part for whole in one.ranges for part in without(whole, known)):
            kept.append(replace(one, ranges=ranges))
    if decisions:
        context.record(*decisions)
    return kept, words


_WHY = {
    LocalCause.OVERTAKEN: "overtaken, {flow.target} has a newer record of the key: not copied",
    LocalCause.UNKNOWN: "not copied, for nobody knows: a tombstone of the key may have been removed at {flow.target}",
}


def _left_out(
    context: Context,
    logs: BothSides,
    flow: FlowConfig,
    one: Extras,
    ends: _Ends,
    stood: Mapping[TopicPartition, int],
) -> dict[LocalCause, tuple[OffsetRange, ...]]:
    offsets: dict[_Digest, list[int]] = {}
    first, end = one.ranges[0][0], one.ranges[-1][1]
    for record in _records(logs, flow, one.partition, (first, end)):
        key = None if record.cause is not None else _key(record)
        if key is not None and any(start <= record.offset < end for start, end in one.ranges):
            offsets.setdefault(key, []).append(record.offset)
    at, there = one.pair.target, ends[one.pair.target.place]
    start = max(stood.get(at, 0), there.log_start)
    newer = {
        key
        for record in _records(logs, flow, at, (start, there.last_stable), is_target=True)
        if record.cause is None and (key := _key(record)) in offsets
    }
    unknown: set[_Digest] = set()
    if newer != offsets.keys() and not _is_known(context, logs, flow, one, (stood.get(at, 0), there)):
        unknown = offsets.keys() - newer
    return {
        cause: tuple(joined(sorted((offset, offset + 1) for key in keys if key for offset in offsets[key])))
        for cause, keys in ((LocalCause.OVERTAKEN, newer), (LocalCause.UNKNOWN, unknown))
    }


def _is_known(
    context: Context, logs: BothSides, flow: FlowConfig, one: Extras, behind: tuple[int, PartitionEnds]
) -> bool:
    """Whether the target shows every key that was written there since: as long as tombstones last, and where nothing
    was removed at all."""
    at, (start, there) = one.pair.target, behind
    settings = logs.target.topic_settings([at.topic]).read[at.topic].effective
    if there.log_start > start:
        return False
    rows = in_order(context.snapshot().rows(OPERATIONS.name, [("kind", "in", DIRECTION_AND_FENCE_KINDS)]))
    since = DirectionRows.of_rows(rows).promoted_since_ms(
        source=flow.source, target=flow.target, topic=at.topic
    )
    lasts_ms = int(settings.get("delete.retention.ms", "0"))
    if since is not None and context.clock.now_ms() < since + lasts_ms:
        return True
    return _is_whole(logs.target, at, start, there.high_watermark)


def _is_whole(reader: LogReader, at: TopicPartition, start: int, end: int) -> bool:
    """Whether a log has a record at each of these offsets."""
    for header in headers_between(reader, at, start, end):
        if header.base_offset > start or not header.is_dense:
            return False
        start = header.end_offset
    return start >= end


def _listed(ranges: Sequence[OffsetRange], what: str = "extra") -> str:
    names = [str(start) if end == start + 1 else f"{start} to {end - 1}" for start, end in ranges]
    return f"{counted(offsets_of(ranges), what)} ({some_of(names, 'offset')})"


# Before anything returns --------------------------------------------------------------------------


def staying(context: Context, one: Deficit, say: Say) -> dict[LocalCause, tuple[OffsetRange, ...]]:
    """Of copies of a compacted topic that are to return those that would lie behind something newer of their key there.

    A copy of that lies behind them here, or the source has it alone. What has no copy here and was removed there, a
    cleaner may have removed: then nobody knows. What applications write here meanwhile comes behind them there as well.
    Raises `PreconditionError` where a log cannot be read to its end.
    """
    with both_sides(context, one.flow) as logs:
        here = _ended(logs.target, one.pair.target)
        first, wanted = one.ranges[0][0], list(one.ranges)
        offsets: dict[int, _Digest] = {}
        held: dict[_Digest, int] = {}
        for record in _records(logs, one.flow, one.pair.target, (first, here.high_watermark), is_target=True):
            if record.cause in (None, GapCause.MIRROR_WRITE) and (key := _key(record)) is not None:
                if _is_among(record.offset, wanted):
                    offsets[record.offset] = key
                elif _is_among(record.offset, one.held):
                    held[key] = record.offset
        there = _ended(logs.source, one.pair.source)
        alone = max(one.copied_to, there.log_start), there.high_watermark
        newer = {
            key
            for record in _records(logs, one.flow, one.pair.source, alone)
            if record.cause in (None, GapCause.FILTERED) and (key := _key(record)) is not None
        }
        is_known = _is_whole(logs.source, one.pair.source, *alone)
    overtaken = {offset for offset, key in offsets.items() if key in newer or held.get(key, -1) > offset}
    unknown = set[int]() if is_known else offsets.keys() - overtaken
    found = {
        cause: tuple(joined((offset, offset + 1) for offset in sorted(some)))
        for cause, some in ((LocalCause.OVERTAKEN, overtaken), (LocalCause.UNKNOWN, unknown))
        if some
    }
    for cause, ranges in found.items():
        say(f"{one.pair.target.words}: {_listed(ranges, 'copy')} {_WHY_HERE[cause].format(flow=one.flow)}")
    return found


_WHY_HERE = {
    LocalCause.OVERTAKEN: "overtaken, {flow.source} has a newer record of the key: not copied back",
    LocalCause.UNKNOWN: "not copied back, for nobody knows: a tombstone of the key may have been removed at "
    "{flow.source}",
}


def _ended(reader: ClusterAdmin, at: TopicPartition) -> PartitionEnds:
    end = reader.ends([at.place]).get(at.place)
    if end is None or end.last_stable < end.high_watermark:
        raise PreconditionError(
            f"a transaction is open in {at.words} of {reader.alias}, or it has no leader: what lies there of which key "
            "cannot be read; nothing was decided. Try again when it has ended"
        )
    return end


def _is_among(offset: int, ranges: Sequence[OffsetRange]) -> bool:
    """`ranges`: ascending."""
    at = bisect_right(ranges, (offset, math.inf)) - 1
    return at >= 0 and offset < ranges[at][1]


# Behind the copies --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """Target offsets in front of which extras lie that were copied: from where the target ended when it was read."""

    target: TopicPartition
    begun: int
    end: int


def unrepaired(context: Context, flow: FlowConfig) -> list[Copies]:
    """Of compacted topics copies of extras behind which nobody has found yet what else was written of their keys."""
    behind_others, state = context.state.behind_others(flow.name), context.state
    known = [one for one in state.positions(flow.name) if one.pair.target.key in behind_others]
    if not known:
        return []
    names = compacted(context, flow, {(one.source_topic, one.target_topic) for one in known})
    done = _read_to(context, flow)
    found = []
    for one in known:
        target, end = one.pair.target, one.position.target_offset
        syncs = holding(state.recorded_syncs(flow.name, one.source_topic, one.partition))
        marks = [
            sync.target_end for sync in syncs if sync.cause is SyncCause.EXTRAS and sync.target == target
        ]
        if target.topic in names and marks and marks[-1] < end and done.get(target.key, 0) < end:
            found.append(Copies(target, marks[-1], end))
    return found


def _read_to(context: Context, flow: FlowConfig) -> dict[tuple[str, int], int]:
    """By target partition up to where it was read last, and all was in order."""
    rows = context.snapshot().rows(
        OPERATIONS.name, [("kind", "=", KeysRepaired.kind), ("flow", "=", flow.name)]
    )
    done = (KeysRepaired.of_row(row) for row in in_order(rows))
    return {(one.topic_id, one.partition): one.read_to for one in done if not one.records}


def repair(context: Context, flow: FlowConfig, found: Sequence[Copies]) -> list[str]:
    """Append once more what applications wrote of a key before a copy of an extra of that key; returns words.

    Each record is listed in the ledger before. Twice is as once. Raises `PreconditionError` where a transaction stays
    open at the target, a log cannot be read, or applications write the same keys again and again.
    """
    words = []
    with both_sides(context, flow) as logs:
        for one in found:
            repaired, unknown = _repaired(context, logs, flow, one)
            if repaired:
                words.append(
                    f"{one.target.words}: {counted(repaired, 'newer record')} of keys appended once more"
                )
            if unknown:
                words.append(
                    f"{one.target.words}: a cleaner has been at work meanwhile: whether {counted(unknown, 'copy')} of "
                    "extras came behind newer records is not known"
                )
    return words


def _repaired(context: Context, logs: BothSides, flow: FlowConfig, one: Copies) -> tuple[int, int]:
    """How many records were appended once more, and of how many copies nobody knows whether that was due."""
    repaired = 0
    for _ in range(_AT_MOST_READ):
        end = _stable_end(context, logs, flow, one)
        is_whole, copied, others = _last_places(logs, flow, one, end)
        unknown = () if is_whole else tuple(sorted(copied[key] for key in copied.keys() - others.keys()))
        behind = tuple(
            sorted(others[key] for key in copied.keys() & others.keys() if others[key] < copied[key])
        )
        at = one.target
        context.record(
            KeysRepaired(
                cluster=flow.target,
                cluster_id=logs.target.cluster_id(),
                topic=at.topic,
                topic_id=at.topic_id,
                partition=at.partition,
                read_to=end,
                records=behind,
                unknown=unknown,
            ),
            flow=flow.name,
        )
        if not behind:
            return repaired, len(unknown)
        _append_again(logs, flow, at, behind)
        repaired += len(behind)
    raise PreconditionError(
        f"applications write keys of {one.target.words} of {flow.target} faster than copies of extras can be put in "
        "front of them; what was copied is recorded. Try again when they write less"
    )


def _stable_end(context: Context, logs: BothSides, flow: FlowConfig, one: Copies) -> int:
    """Up to where the target can be read, when that is behind all copies."""
    give_up = context.clock.monotonic() + _ENDED_WITHIN_S
    while True:
        there = logs.target.ends([one.target.place]).get(one.target.place)
        if there is not None and there.last_stable >= one.end:
            return there.last_stable
        if context.clock.monotonic() >= give_up:
            raise PreconditionError(
                f"a transaction is open in {one.target.words} of {flow.target}, or it has no leader: what lies in "
                "front of the copies of extras cannot be read; what was copied is recorded. Try again when it has ended"
            )
        logs.network.poll(_PAUSE_S)


def _last_places(
    logs: BothSides, flow: FlowConfig, one: Copies, end: int
) -> tuple[bool, dict[_Digest, int], dict[_Digest, int]]:
    """Whether nothing was removed there, and by key the offset of its last copy, and of the last record of others."""
    copied: dict[_Digest, int] = {}
    others: dict[_Digest, int] = {}
    start = max(one.begun, logs.target.ends([one.target.place])[one.target.place].log_start)
    for record in _records(logs, flow, one.target, (start, end), is_target=True):
        if record.cause in (None, GapCause.MIRROR_WRITE) and (key := _key(record)) is not None:
            (others if record.cause is None else copied)[key] = record.offset
    return _is_whole(logs.target, one.target, one.begun, one.end), copied, others


def _append_again(logs: BothSides, flow: FlowConfig, at: TopicPartition, offsets: Collection[int]) -> None:
    """In their order, each request waited for; asked twice a record is there once."""
    producer_id, sequence = logs.target.allocate_producer_id(), 0
    wanted = frozenset(offsets)
    some: list[Record] = []

    def send() -> int:
        batch = memoryview(encode(some, codec=_GZIP))
        patch_for_target(batch, _GZIP, producer_id=producer_id, sequence=sequence)
        acknowledged(ProduceItem(at, batch), logs.network, logs.clock, what="records")
        return next_sequence(sequence, len(some))

    for record in _records(logs, flow, at, (min(wanted), max(wanted) + 1), is_target=True):
        if record.offset in wanted:
            some.append(Record(record.offset, record.timestamp, 0, record.content))
            if len(some) == _BATCH_RECORDS or sum(len(one.content) for one in some) > _BATCH_BYTES:
                sequence = send()
                some.clear()
    if some:
        send()


# Logs ---------------------------------------------------------------------------------------------


def _records(
    logs: BothSides, flow: FlowConfig, at: TopicPartition, between: OffsetRange, *, is_target: bool = False
) -> Iterator[LogRecord]:
    """Of the target, as mirrors' those that the flow has written; of the source, those of any mirror."""
    identities = logs.state.identities()
    if is_target:
        own = identities.producers(logs.target.cluster_id()).get(flow.name)
        ids = frozenset() if own is None else own.former | {own.current}
        log = logs.log(logs.network.target, at, *between, mirror_producer_ids=ids)
    else:
        ids, chosen = identities.mirror_ids(logs.source.cluster_id()), flow.filter.record_filter
        log = logs.log(logs.network.source, at, *between, mirror_producer_ids=ids, record_filter=chosen)
    try:
        yield from log.read(log.start)
    except RefusedPartitionError as error:
        raise PreconditionError(
            f"{error}; what was copied before is recorded, and nothing was decided"
        ) from error


def _key(record: LogRecord) -> _Digest | None:
    key = key_state(record.content).key
    return None if key is None else blake2b(key, digest_size=16).digest()
