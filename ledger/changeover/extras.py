"""What a cluster has that no flow has brought to another one, once it answers again: listed, and measured.

Nothing here changes anything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.changeover.brought import paired
from ledger.changeover.pairs import Pair
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import PreconditionError, UsageError
from ledger.facts.extras import ExtraRange, ExtrasDecided, ExtrasPolicy, PartitionKey
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import (
    FlowPosition,
    OffsetRange,
    PartitionPair,
    SyncCause,
    SyncKind,
    TopicPartition,
    holding,
    joined,
    without,
)
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds
from ledger.recorders.observation import read_groups
from ledger.words import counted, instant, some_of

READ_BYTES = 64 * 1000 * 1000
"""How much of a partition is read at most to measure its extras."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What lies at offsets: records and bytes of batches that hold some, and the times of the first and the last one.

    `is_whole`: all of it was read; else the figures are at least, and the last time is that of what was read.
    """

    records: int = 0
    bytes: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    is_whole: bool = True

    def with_batch(self, header: BatchHeader, found: OffsetRange) -> "Measured":
        """`found`: the offsets of the batch that are meant."""
        base = header.max_timestamp if header.has_delete_horizon else header.base_timestamp
        first, last = self.first_timestamp_ms, self.last_timestamp_ms
        return replace(
            self,
            records=self.records + min(header.count, found[1] - found[0]),
            bytes=self.bytes + header.size,
            first_timestamp_ms=base if first is None else min(first, base),
            last_timestamp_ms=header.max_timestamp if last is None else max(last, header.max_timestamp),
        )

    @property
    def words(self) -> str:
        least = "" if self.is_whole else "at least "
        if self.first_timestamp_ms is None or self.last_timestamp_ms is None:
            return f"{least}no record"
        size = f"{least}{counted(self.records, 'record')}, {self.bytes:,} bytes"
        return f"{size}, from {instant(self.first_timestamp_ms)} to {instant(self.last_timestamp_ms)}"


@dataclass(frozen=True, slots=True)
class Extras:
    """Offsets of a partition that no flow has brought to another cluster, and about which nothing is decided.

    `pair`: the partition, and the one that `flow` copies it to. `readers`: by group with a commit behind the first
    record how many of them lie below that. `empty`: offsets of markers and of what was aborted, which nobody reads.
    `unpaired`: records that the flow had copied to the other cluster and nobody could pair: some of the offsets may be
    theirs. `log_start`: of the partition. `measured` None: nobody has read them.
    """

    flow: FlowConfig
    pair: PartitionPair
    ranges: tuple[OffsetRange, ...]
    log_start: int = 0
    readers: Mapping[str, int] = field(default_factory=dict)
    empty: tuple[OffsetRange, ...] = ()
    unpaired: int = 0
    measured: Measured | None = None

    @property
    def partition(self) -> TopicPartition:
        return self.pair.source

    @property
    def offsets(self) -> int:
        return offsets_of(self.ranges)

    @property
    def are_markers(self) -> bool:
        """Whether all of it was read, and there is no record: nobody has to decide about it, and it stays."""
        return self.measured is not None and self.measured.is_whole and not self.measured.records

    @property
    def words(self) -> str:
        size = "" if self.measured is None else f": {self.measured.words}"
        read = some_of([f"{name!r} ({count:,})" for name, count in sorted(self.readers.items())], "group")
        return (
            f"{self.partition.words}: {counted(self.offsets, 'offset')} ({ranges_text(self.ranges)}){size}"
            + (f"; read by {read}" if read else "")
        )

    def decided(self, cluster_id: str, policy: ExtrasPolicy) -> ExtrasDecided:
        """What is recorded of them: what is to become of them."""
        at = self.partition
        return ExtrasDecided(
            cluster=self.flow.source,
            cluster_id=cluster_id,
            topic=at.topic,
            topic_id=at.topic_id,
            policy=policy,
            ranges=tuple(
                ExtraRange(partition=at.partition, extra_start=start, extra_end=end)
                for start, end in self.ranges
            ),
        )

    @property
    def facts(self) -> dict[str, object]:
        """As a row of a table."""
        known = self.measured
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offsets": self.offsets,
            "ranges": ranges_text(self.ranges),
            "records": None if known is None else known.records,
            "bytes": None if known is None else known.bytes,
            "is_whole": None if known is None else str(known.is_whole).lower(),
            "first_timestamp_ms": None if known is None else known.first_timestamp_ms,
            "last_timestamp_ms": None if known is None else known.last_timestamp_ms,
            "unpaired": self.unpaired,
            "read_by": ", ".join(f"{name} ({count})" for name, count in sorted(self.readers.items())) or None,
        }


def offsets_of(ranges: Iterable[OffsetRange]) -> int:
    """How many offsets they are together."""
    return sum(end - start for start, end in ranges)


def ranges_text(ranges: Iterable[OffsetRange]) -> str:
    """As people read them, the last offset of each included."""
    return ", ".join(f"{start} to {end - 1}" for start, end in ranges)


def compacted(clusters: Iterable[ClusterAdmin], topics: Collection[str]) -> frozenset[str]:
    """Topics that one of these clusters compacts, or may compact: it does not say."""
    found = set[str]()
    for cluster in clusters:
        answer = cluster.topic_settings(sorted(topics))
        found |= answer.refused.keys()
        found |= {
            name
            for name, settings in answer.read.items()
            if "compact" in settings.effective.get("cleanup.policy", "")
        }
    return frozenset(found)


# Partitions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """A partition that a flow has copied to the promoted cluster, and the source offset up to where it has."""

    flow: FlowConfig
    pair: PartitionPair
    copied_to: int


def copied_partitions(context: Context, asked: Pair, flows: Sequence[FlowConfig]) -> list[Copied]:
    """Of topics that are there as they were copied; what was copied of their former incarnations is left out, and so
    are topics that were created again by decision.

    Raises `PreconditionError` for topics that are not promoted, or are other ones by now.
    """
    directions, found = context.state.directions(), []
    deleted = context.state.recreations().rows
    here = {alias: context.cluster(alias).topics() for alias in (asked.cluster, asked.former)}
    for flow in flows:
        selection = context.config.topic_selection(flow.name)
        known: dict[tuple[str, str], list[FlowPosition]] = {}
        for one in paired(context.state, flow):
            is_asked = asked.topics is None or one.target_topic in asked.topics
            if is_asked and selection.selects(one.source_topic):
                known.setdefault((one.source_topic, one.target_topic), []).append(one)
        for (source_topic, target_topic), positions in sorted(known.items()):
            at_source, at_target = here[asked.former].get(source_topic), here[asked.cluster].get(target_topic)
            if at_source is None and at_target is None:
                continue
            current = [
                one
                for one in positions
                if at_source is not None
                and at_target is not None
                and (one.source_topic_id, one.target_topic_id) == (at_source.topic_id, at_target.topic_id)
            ]
            if not current and any(one.source_topic_id in deleted for one in positions):
                continue  # all of it comes back
            if not current:
                raise PreconditionError(
                    f"{source_topic} of {asked.former} and {target_topic} of {asked.cluster} are not the topics any "
                    f"more that {flow.name} copied; nothing was recorded. Leave it out (--topic names the others)"
                )
            if directions.promotion(asked.former, asked.cluster, target_topic) is None:
                raise PreconditionError(
                    f"{target_topic} of {asked.cluster} is not promoted over {asked.former}: {flow.name} copies it, "
                    "and nothing goes the other way; nothing was recorded"
                )
            found += [Copied(flow, one.pair, one.position.source_offset) for one in current]
    if not found and not deleted:
        raise UsageError(
            f"no flow has copied such a topic from {asked.former} to {asked.cluster}; nothing was recorded"
        )
    return found


def extras_starts(context: Context, back: ClusterAdmin, copied: Sequence[Copied]) -> list[Copied]:
    """Partitions of the cluster that is back, also those that nobody has copied yet, with up to where they are copied.

    As the ledger has it now: what was paired since counts.
    """
    flows = {one.flow.name: one.flow for one in copied}
    meant = {(one.flow.name, one.pair) for one in copied}
    now = [
        Copied(flow, at.pair, at.position.source_offset)
        for name, flow in flows.items()
        for at in paired(context.state, flow)
        if (name, at.pair) in meant
    ]
    known = {one.pair.source for one in now}
    topics, others = back.topics(), []
    for flow, source, target in {_topics_of(one) for one in now}:
        for partition in range(topics[source[0]].partitions):
            pair = PartitionPair(TopicPartition(*source, partition), TopicPartition(*target, partition))
            if pair.source not in known:
                others.append(Copied(flows[flow], pair, 0))
    return sorted([*now, *others], key=lambda one: one.pair.source.place)


def without_lost(starts: Sequence[Copied], parted_at: Mapping[PartitionPair, int]) -> list[Copied]:
    """The same, where a source has lost what was copied up to where it has not."""
    return [replace(one, copied_to=parted_at.get(one.pair, one.copied_to)) for one in starts]


def _topics_of(one: Copied) -> tuple[str, tuple[str, str], tuple[str, str]]:
    source, target = one.pair.source, one.pair.target
    return one.flow.name, (source.topic, source.topic_id), (target.topic, target.topic_id)


Ends = Mapping[tuple[str, int], PartitionEnds]
"""By topic and partition of the cluster that is back."""


def ends_of_extras(admin: ClusterAdmin, partitions: Iterable[TopicPartition]) -> Ends:
    """Raises `PreconditionError` where one has no leader."""
    places = sorted(at.place for at in partitions)
    ends = admin.ends(places)
    if leaderless := [
        f"{topic} partition {partition}" for topic, partition in places if (topic, partition) not in ends
    ]:
        raise PreconditionError(
            f"{some_of(leaderless, 'partition')} of {admin.alias} has no leader; nothing was decided. Try again when "
            "it has one"
        )
    return ends


# Extras -------------------------------------------------------------------------------------------


Paired = Mapping[PartitionPair, Sequence[OffsetRange]]
"""Source offsets of what a dead driver had copied and nobody has recorded yet."""


def read_extras(
    context: Context,
    back: ClusterAdmin,
    starts: Sequence[Copied],
    ends: Ends | None = None,
    paired: Paired | None = None,
) -> list[Extras]:
    """Extras of a cluster that answers: measured, less what mirrors write there now, with who has read them by now."""
    found = extras_of(context, back, starts, ends, paired or {})
    measured = measured_extras(back, list(found), _unrecorded(context, back))
    commits = _commits(context, back) if measured else {}
    return [replace(one, readers=_readers(one, commits.get(one.partition.place, {}))) for one in measured]


def extras_of(
    context: Context, back: ClusterAdmin, starts: Sequence[Copied], ends: Ends | None, paired: Paired
) -> Iterator[Extras]:
    """Of each partition what lies behind the map and no flow has written there, less what is decided; not measured.

    `ends` None: as they are now. Raises `PreconditionError` where a partition has no leader.
    """
    state = context.state
    ends = ends_of_extras(back, [one.pair.source for one in starts]) if ends is None else ends
    decided = state.extras().decided
    claims = state.written_by_flows(back.alias, sorted({one.pair.source.topic for one in starts}))
    found: list[tuple[Copied, tuple[OffsetRange, ...]]] = []
    for one in starts:
        at = one.pair.source
        end = ends[at.place]
        whole = max(one.copied_to, end.log_start), end.high_watermark
        known = (*claims.get(at.key, ()), *decided.get(at.key, ()), *paired.get(one.pair, ()))
        if whole[0] < whole[1] and (ranges := tuple(without(whole, joined(sorted(known))))):
            found.append((one, ranges))
    unpaired = unpaired_records(context, [one for one, _ in found if one.pair not in paired])
    for one, ranges in found:
        log_start = ends[one.pair.source.place].log_start
        left = unpaired.get((one.flow.name, one.pair), 0)
        yield Extras(one.flow, one.pair, ranges, log_start, unpaired=left)


def _commits(context: Context, back: ClusterAdmin) -> dict[tuple[str, int], dict[str, int]]:
    """Commits by place and group as they are now, of groups that flows record; where one is not shown, as recorded."""
    patterns = {flow.group_patterns for flow in context.config.flows.values()}
    there = read_groups(back, lambda name: any(one.matches(name) for one in patterns), back.topics())
    found: dict[tuple[str, int], dict[str, int]] = {}
    for commit in (*context.state.last_checkpoints(back.alias), *there.checkpoints):
        if commit.committed_offset is not None:
            found.setdefault((commit.topic, commit.partition), {})[commit.group_id] = commit.committed_offset
    return found


def _readers(one: Extras, commits: Mapping[str, int]) -> dict[str, int]:
    held = [part for whole in one.ranges for part in without(whole, one.empty)]
    below = {name: _below(held, offset) for name, offset in commits.items()}
    return {name: count for name, count in below.items() if count}


def _below(ranges: Sequence[OffsetRange], offset: int) -> int:
    return sum(max(0, min(end, offset) - start) for start, end in ranges)


def unpaired_records(context: Context, copied: Sequence[Copied]) -> dict[tuple[str, PartitionPair], int]:
    """Records of a dead driver that were found at the other cluster, and nobody could pair with their source; by flow
    and pair."""
    found: dict[tuple[str, PartitionPair], int] = {}
    for flow in {one.flow.name for one in copied}:
        own = [one for one in copied if one.flow.name == flow]
        unpaired = {
            place: [
                sync
                for sync in holding(rows)
                if (sync.kind, sync.cause) == (SyncKind.UNPAIRED, SyncCause.LOST_SOURCE)
            ]
            for place, rows in context.state.syncs_of_each(flow, [one.pair.source.place for one in own])
        }
        for one in own:
            found[flow, one.pair] = sum(
                sync.records or 0
                for sync in unpaired[one.pair.source.place]
                if sync.source == one.pair.source and sync.source_start >= one.copied_to
            )
    return found


Unrecorded = Mapping[PartitionKey, Sequence[tuple[int, FlowProducer]]]
"""By partition of the cluster that is back the offset behind which a flow's copies are not recorded, and the flow."""


def _unrecorded(context: Context, back: ClusterAdmin) -> Unrecorded:
    producers = context.state.identities().producers(back.cluster_id())
    found: dict[PartitionKey, list[tuple[int, FlowProducer]]] = {}
    for flow in context.config.flows.values():
        if flow.target == back.alias and (producer := producers.get(flow.name)) is not None:
            for at in context.state.positions(flow.name):
                found.setdefault(at.pair.target.key, []).append((at.position.target_offset, producer))
    return found


def measured_extras(back: ClusterAdmin, found: Sequence[Extras], unrecorded: Unrecorded) -> list[Extras]:
    """The same, each read up to `READ_BYTES` a partition, less what flows have just written there.

    Raises `ClusterUnavailableError` where a partition cannot be read.
    """
    measured = (_measured(back, one, unrecorded.get(one.partition.key, ())) for one in found)
    return [one for one in measured if one.ranges]


def _measured(back: ClusterAdmin, one: Extras, unrecorded: Sequence[tuple[int, FlowProducer]]) -> Extras:
    known, read, copies, empty = Measured(), 0, list[OffsetRange](), list[OffsetRange]()
    batches = (
        (whole, *found) for whole in one.ranges for found in _committed_batches(back, one.partition, whole)
    )
    for (start, end), header, is_committed in batches:
        if read >= READ_BYTES:
            known = replace(known, is_whole=False)
            break
        read += header.size
        part = max(header.base_offset, start), min(header.end_offset, end)
        if any(part[0] >= behind and flow.wrote(header.producer_id) for behind, flow in unrecorded):
            copies.append(part)
        elif is_committed:
            known = known.with_batch(header, part)
        else:
            empty.append(part)
    ranges = tuple(part for whole in one.ranges for part in without(whole, joined(copies)))
    return replace(one, ranges=ranges, empty=tuple(joined(empty)), measured=known)


def _committed_batches(
    back: ClusterAdmin, at: TopicPartition, whole: OffsetRange
) -> Iterator[tuple[BatchHeader, bool]]:
    """Headers of batches with an offset of the range, each with whether it holds records that are committed."""
    start, end = whole
    while start < end and (found := back.batches_at(at, start)):
        ended = dict[int, int]()
        aborted = back.aborted_at(at, start) if any(one.is_transactional for one in found) else ()
        for header in found:
            if header.base_offset >= end:
                return
            writer, base = header.producer_id, header.base_offset
            is_aborted = header.is_transactional and any(
                one == writer and ended.get(one, -1) < first <= base for one, first in aborted
            )
            if header.is_control:
                ended[writer] = base
            yield header, bool(header.count) and not header.is_control and not is_aborted
        start = found[-1].end_offset
