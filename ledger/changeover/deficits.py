"""What a cluster lacks that is back: records of its own that were copied, and that it holds no more, and what came from
third clusters while it was away.

It came back with less than it had: a disk lost its end, an older copy of its data was restored, a replica that lagged
was elected. The copies at the other cluster are the only ones then. What a dead driver had copied and nobody had
recorded counts as well where its source lacks it. Nothing here changes anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.adopt.reading import both_sides
from ledger.changeover.extras import (
    Copied,
    Extras,
    Paired,
    copied_partitions,
    ends_of_extras,
    extras_starts,
    offsets_of,
    ranges_text,
    read_extras,
    without_lost,
)
from ledger.changeover.pairs import Pair
from ledger.changeover.tail_pairing import ReadTail, read_tails
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import PreconditionError, RefusedPartitionError
from ledger.facts.deficits import DeficitsDecided, DeficitsPolicy, ReturnedRange
from ledger.facts.history import expand
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    MAPPED,
    OffsetRange,
    OffsetSync,
    PartitionPair,
    Position,
    RecordedSync,
    SyncCause,
    SyncKind,
    TopicPartition,
    effective,
    joined,
    without,
)
from ledger.kafka.cluster import require_recorded
from ledger.kafka.record_fields import key_state
from ledger.words import counted, some_of


@dataclass(frozen=True, slots=True)
class Deficit:
    """`ranges`: offsets of `partition`, where the copies lie, about which nothing is decided. `unpaired`: of these so
    many that nobody had recorded with their source; `brought`: so many came from other clusters since. `copied_to`: up
    to where `pair.source` is what was copied."""

    flow: FlowConfig
    pair: PartitionPair
    ranges: tuple[OffsetRange, ...]
    unpaired: int
    copied_to: int
    brought: int = 0

    @property
    def partition(self) -> TopicPartition:
        return self.pair.target

    @property
    def offsets(self) -> int:
        return offsets_of(self.ranges)

    @property
    def words(self) -> str:
        unpaired = f", {self.unpaired:,} of them never recorded" if self.unpaired else ""
        lost, origins = self.offsets - self.brought, []
        if lost:
            origins.append(f"{counted(lost, 'record')} that {self.flow.name} had copied{unpaired}")
        if self.brought:
            origins.append(
                f"{counted(self.brought, 'record')} that other clusters brought to {self.flow.target}"
            )
        return (
            f"{self.pair.source.words} lacks {' and '.join(origins)}: {self.flow.target} has the copies "
            f"({ranges_text(self.ranges)})"
        )

    @property
    def facts(self) -> dict[str, object]:
        """As a row of a table."""
        return {
            "topic": self.pair.source.topic,
            "partition": self.pair.source.partition,
            "copied_to": self.copied_to,
            "offsets": self.offsets,
            "ranges": ranges_text(self.ranges),
            "unpaired": self.unpaired,
            "brought": self.brought,
        }


def list_deficits(
    context: Context, flows: Sequence[FlowConfig], copied: Sequence[Copied]
) -> tuple[list[Deficit], Paired]:
    """By partition, as both clusters and the ledger are now, whatever of it is recorded already; and what dead drivers
    had copied that their sources hold still.

    Raises `PreconditionError` where what a dead driver had copied can be compared with nothing.
    """
    decided, found, paired = (
        context.state.deficits(),
        list[Deficit](),
        dict[PartitionPair, list[OffsetRange]](),
    )
    for flow in flows:
        pairs = [one.pair for one in copied if one.flow == flow]
        tails = {tail.pair: tail for tail in read_tails(context, flow, pairs)}
        paired |= {
            pair: [source for sync in effective(tail.syncs) for source, _ in copies_of(sync)]
            for pair, tail in tails.items()
        }
        brought = _brought_by_others(context, flow, pairs)
        pairs += [pair for pair in brought if pair not in pairs]
        starts = context.cluster(flow.target).ends([pair.target.place for pair in pairs])
        back = [] if flow.opposite is None else context.state.positions(flow.opposite)
        read_to = {at.pair: at.position for at in back}
        places = [pair.source.place for pair in pairs]
        recorded = dict(context.state.syncs_of_each(flow.name, places))
        for pair in pairs:
            tail, known = tails.get(pair), decided.known(flow.source, pair.target)
            start = starts[pair.target.place].log_start
            if (returned := read_to.get(PartitionPair(pair.target, pair.source))) is not None:
                _require_kept(flow, tail, returned)
                start = max(start, returned.source_offset)
            rows = _rows(recorded[pair.source.place], pair, tail)
            one = deficit(flow, pair, rows, start, known, brought.get(pair, ()))
            if one is not None:
                found.append(one)
    return found, paired


def _brought_by_others(
    context: Context, flow: FlowConfig, pairs: Sequence[PartitionPair]
) -> dict[PartitionPair, list[OffsetRange]]:
    """What came to the target from third clusters of which no flow goes to the source; and by none that relays."""
    sources = {_topic(pair.target): _topic(pair.source) for pair in pairs}
    by_others: dict[frozenset[str], list[tuple[str, str]]] = {}
    for target, source in sources.items():
        besides = {flow.source} | {
            one.source
            for one in context.config.flows.values()
            if (one.target == flow.target and one.relay)
            or (one.target == flow.source and context.config.copies(one, source[0]))
        }
        by_others.setdefault(frozenset(besides), []).append(target)
    found: dict[PartitionPair, list[OffsetRange]] = {}
    for others, targets in by_others.items():
        names = {topic_id: name for name, topic_id in targets}
        written = context.state.written_by_flows(flow.target, sorted(names.values()), others)
        for (topic_id, partition), ranges in written.items():
            if (name := names.get(topic_id)) is not None:
                target = name, topic_id
                source = sources[target]
                pair = PartitionPair(TopicPartition(*source, partition), TopicPartition(*target, partition))
                found[pair] = ranges
    return found


def _topic(at: TopicPartition) -> tuple[str, str]:
    return at.topic, at.topic_id


def _require_kept(flow: FlowConfig, tail: ReadTail | None, returned: Position) -> None:
    """`returned`: where the flow of the way back stands, from when applications had come home before."""
    if tail is None or tail.lost is None or tail.state.position.source_offset >= returned.target_offset:
        return
    raise PreconditionError(
        f"{tail.pair.source.words} of {flow.source} has lost what {flow.opposite} had brought there before, below "
        f"offset {returned.target_offset}: {tail.lost}; nothing was decided. Leave the topic out "
        "(--topic names the others)"
    )


def _rows(recorded: Sequence[RecordedSync], pair: PartitionPair, tail: ReadTail | None) -> list[OffsetSync]:
    """Of the pair, oldest first: what is recorded, and what would be."""
    rows = [row.sync for row in sorted(recorded, key=lambda row: row.place)]
    rows += [] if tail is None else tail.syncs
    return [sync for sync in rows if (sync.source, sync.target) == (pair.source, pair.target)]


def deficit(
    flow: FlowConfig,
    pair: PartitionPair,
    rows: Sequence[OffsetSync],
    start: int,
    decided: Sequence[OffsetRange],
    brought: Sequence[OffsetRange] = (),
) -> Deficit | None:
    """By rows of the pair, oldest first; None: there is none. `start`: what lies below it at the target was read
    before, or is there no more; `decided`: ranges there about which something is decided; `brought`: what others have
    written there. It counts behind all that the flow has written: that was when applications were there."""
    holding = effective(rows)
    held = sorted(part for sync in holding for _, part in copies_of(sync))
    position, end = 0, 0
    if rows:  # else the flow had copied nothing of it yet
        position = rows[-1].source_start if rows[-1].kind is SyncKind.SUPERSEDED else rows[-1].source_end
        end = rows[-1].target_end
    unpaired = [
        (sync.target_start, sync.target_end)
        for sync in holding
        if (sync.kind, sync.cause) == (SyncKind.UNPAIRED, SyncCause.LOST_SOURCE)
        and sync.records
        and sync.source_start >= position
    ]
    since = [(max(begin, end), stop) for begin, stop in brought if stop > end]
    known = list(joined(sorted((*held, *decided, (0, start)))))

    def left(ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        return [part for whole in joined(sorted(ranges)) for part in without(whole, known)]

    ranges = tuple(joined(left([*_lost_at_source(rows), *unpaired, *since])))
    if not ranges:
        return None
    return Deficit(
        flow,
        pair,
        ranges,
        offsets_of(left(unpaired)),
        position,
        brought=offsets_of(left(since)),
    )


def copies_of(sync: OffsetSync) -> Iterator[tuple[OffsetRange, OffsetRange]]:
    """Source and target offsets of records."""
    if sync.kind in MAPPED:
        for one in expand(sync):
            yield (one.source_start, one.source_end), (one.target_start, one.target_end)


def _lost_at_source(rows: Sequence[OffsetSync]) -> Iterator[OffsetRange]:
    """Target offsets of copies whose source records were lost since, and that the target holds still."""
    for index, sync in enumerate(rows):
        later = rows[index + 1 :]
        cut = min((one.source_start for one in later if one.cause in LOST_AT_SOURCE), default=None)
        if cut is None:
            continue
        held_to = min(
            (one.target_start for one in later if one.cause is SyncCause.TARGET_TRUNCATED),
            default=sync.target_end,
        )
        for (source_start, _), (target_start, target_end) in copies_of(sync):
            first = target_start + max(cut - source_start, 0)
            if first < min(target_end, held_to):
                yield first, min(target_end, held_to)


def decision(context: Context, one: Deficit, policy: DeficitsPolicy) -> DeficitsDecided:
    """What is recorded of it."""
    source, target = one.pair.source, one.pair.target
    return DeficitsDecided(
        cluster=one.flow.source,
        cluster_id=context.cluster(one.flow.source).cluster_id(),
        topic=source.topic,
        topic_id=source.topic_id,
        holder=one.flow.target,
        holder_id=context.cluster(one.flow.target).cluster_id(),
        held_topic=target.topic,
        held_topic_id=target.topic_id,
        policy=policy,
        ranges=tuple(
            ReturnedRange(partition=target.partition, return_start=start, return_end=end)
            for start, end in one.ranges
        ),
    )


def missing_keys(context: Context, one: Deficit) -> str:
    """Count and list keys whose last value stays where the copies are, in words.

    Raises `PreconditionError` where the log there cannot be read.
    """
    at, last = one.partition, dict[bytes, int]()
    with both_sides(context, one.flow) as logs:
        end = ends_of_extras(logs.target, [at])[at.place].last_stable
        log = logs.log(logs.network.target, at, one.ranges[0][0], end, mirror_producer_ids=frozenset())
        try:
            for record in log.read(log.start):
                if record.cause is None and (key := key_state(record.content).key) is not None:
                    last[key] = record.offset
        except RefusedPartitionError as error:
            raise PreconditionError(f"{error}; nothing was decided") from error
    missing = [
        str(offset) for start, end in one.ranges for offset in sorted(last.values()) if start <= offset < end
    ]
    offsets = some_of(missing, "offset")
    keys = f"{counted(len(missing), 'key')} (offsets of copies: {offsets})" if missing else "no key"
    stay = f"{at.words}: {counted(one.offsets, 'record')} stay at {one.flow.target}"
    return f"{stay}; {one.flow.source} lacks the last value of {keys}"


def parted_at(found: Sequence[Deficit]) -> dict[PartitionPair, int]:
    """By partition from which offset on its source may hold other records than were copied."""
    return {one.pair: one.copied_to for one in found}


# What each side has alone -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OneSided:
    """`lacking`, `extras`: what the cluster that is back lacks, and what it alone has, measured. `starts`: up to where
    each of its partitions is copied; `paired`: what is to be recorded of that still."""

    lacking: list[Deficit]
    extras: list[Extras]
    starts: list[Copied]
    paired: Paired


def list_one_sided(context: Context, pair: Pair) -> OneSided:
    """Of the cluster that is back (`pair.former`), by partition, as both clusters and the ledger are now.

    Also while flows run: what a flow is about to copy there counts as well, and so does what a dead driver had copied
    and nobody has recorded. Raises `UsageError` where no flow has copied such a topic, `PreconditionError` where one is
    not promoted or another one than was copied, and where what a dead driver had copied can be compared with nothing;
    `ClusterUnavailableError` where a cluster does not answer.
    """
    back, promoted = context.cluster(pair.former), context.cluster(pair.cluster)
    require_recorded(context.state, back, promoted)
    flows = pair.flows_of(context.config.flows.values(), context.config.copies)
    copied = copied_partitions(context, pair, flows)
    lacking, paired = list_deficits(context, flows, copied)
    starts = without_lost(extras_starts(context, back, copied), parted_at(lacking))
    return OneSided(lacking, read_extras(context, back, starts, None, paired), starts, paired)
