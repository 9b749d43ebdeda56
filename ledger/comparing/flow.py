"""Compares both sides of a flow: partition by partition by the map of one cut, as far as both logs still reach."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ledger.clock import Clock, SystemClock
from ledger.comparing.partition import (
    Found,
    OffsetPairs,
    ReadableLog,
    Stretch,
    compare,
    compare_keys,
    last_of_keys,
)
from ledger.config.values import ClusterConfig, FlowConfig
from ledger.context import Context
from ledger.errors import (
    ClusterUnavailableError,
    MirrorLedgerError,
    RefusedPartitionError,
    UsageError,
)
from ledger.facts.codec import decode
from ledger.facts.history import Segment
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import PartitionEnds
from ledger.kafka.copying import ClusterLink
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.partition_reader import PartitionReader
from ledger.store import answers, sql
from ledger.store.snapshots import DeltaSnapshot

_REQUEST_TIMEOUT_S = 30.0
_NOTED_EVERY_S = 5.0
"""How often it is noted how far a partition is."""
_SAMPLE_OFFSETS = 1_000
_SENT = """
    select e.source_topic_id, e.source_partition, e.target_topic_id, cast(sum(e.records) as bigint)
    from effective_syncs as e
    inner join offset_syncs as o
        using (flow, source_topic_id, source_partition, writer_epoch, round, kind, source_start, source_end)
    where e.flow = $flow and e.is_current and o.checksum is not null
    group by all
"""
"""Of rows of which a part was superseded nobody knows the checksum of the rest."""
_UNDONE = "the rest of the partition was not compared"


class Verdict(StrEnum):
    """What comparing a partition came to. The first that applies, in this order, is reported."""

    DIFFERS = "differs"  # a record that both sides should hold is not the same
    UNKNOWN = "unknown"  # not everything was read
    EQUAL = "equal"  # but for what has a name


@dataclass(frozen=True, slots=True)
class MappedPartition:
    """A partition of a flow with its map. `records`: how many the map has; `checksummed`: of how many it is recorded
    with which checksum they were sent."""

    source: TopicPartition
    target: TopicPartition
    pairs: OffsetPairs
    checksummed: int = 0

    @property
    def source_end(self) -> int:
        return self.pairs.segments[-1].source_end if self.pairs.segments else 0

    @property
    def records(self) -> int:
        return sum(one.source_end - one.source_start for one in self.pairs.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A partition after its comparison. `mapped`: records that the map has, `checksummed`: those of which it is
    recorded with which checksum they were sent. `read_to`: source offsets below it are done; None: nothing was read.

    `expired`: offsets of the map that one of both logs holds no more. `keys`: of a compacted topic, whose last records
    were compared, and `keys_left_out`, which have a later one that was not; None: it is none, or that was not read.
    `why`: why not everything was read.
    """

    source_topic: str
    partition: int
    target_topic: str
    mapped: int
    checksummed: int
    verdict: Verdict
    read_to: int | None = None
    expired: int = 0
    keys: int | None = None
    keys_left_out: int | None = None
    found: Found = field(default_factory=Found)
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`topics`: none: all. `stretches`: so many of a thousand offsets of each partition, None: everything.

    `bytes_per_second`: of both sides together, None: as fast as they answer. `file`: where is noted how far it is.
    """

    topics: Sequence[str] = ()
    stretches: int | None = None
    bytes_per_second: float | None = None
    file: Path | None = None


def mapped_partitions(at: DeltaSnapshot, flow: str) -> list[MappedPartition]:
    """What a flow has copied or adopted, after supersession, in the targets that it went to last."""
    with sql.connect(at, {}, ("segments", "effective_syncs"), flow=flow) as connection:
        rows = connection.execute(
            "select source_topic, source_topic_id, source_partition, target_topic, target_topic_id, target_partition, "
            "source_start, source_end, target_start from segments where flow = $flow and is_current "
            "order by source_topic, source_topic_id, source_partition, source_start",
            {"flow": flow},
        ).fetchall()
        sent = connection.execute(_SENT, {"flow": flow}).fetchall()
    found: dict[tuple[TopicPartition, TopicPartition], list[Segment]] = {}
    for row in rows:
        key = TopicPartition(*row[:3]), TopicPartition(*row[3:6])
        found.setdefault(key, []).append(Segment(*row[6:]))
    checksummed = {tuple(row[:3]): row[3] for row in sent}
    return [
        MappedPartition(
            source,
            target,
            OffsetPairs(segments),
            checksummed.get((source.topic_id, source.partition, target.topic_id), 0),
        )
        for (source, target), segments in found.items()
    ]


# Comparing ----------------------------------------------------------------------------------------


class Throttle:
    """Holds reading back to so many bytes a second, over all that was read since it began."""

    def __init__(self, clock: Clock, sleep: Callable[[float], None], bytes_per_second: float | None) -> None:
        self._clock, self._sleep, self._rate = clock, sleep, bytes_per_second
        self._began_s, self._read = clock.monotonic(), 0

    def seconds(self) -> float:
        """Since it began."""
        return self._clock.monotonic() - self._began_s

    def __call__(self, size: int) -> None:
        self._read += size
        if self._rate is not None:
            early_s = self._read / self._rate - self.seconds()
            if early_s > 0:
                self._sleep(early_s)


@dataclass(slots=True)
class Progress:
    """What was compared before, by partition, at a cut; kept in a file where one is named."""

    cut: str
    flow: str
    file: Path | None
    stretches: int | None
    done: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Path | None, flow: str, stretches: int | None) -> "Progress | None":
        """What a file says; None: there is none yet. Raises `UsageError` for a file of something else."""
        if file is None or not file.exists():
            return None
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            kept = cls(said["cut"], said["flow"], file, said["stretches"], said["done"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{file} is no file of a comparison ({error}); nothing was read") from error
        if (kept.flow, kept.stretches) != (flow, stretches):
            raise UsageError(
                f"{file} is of a comparison of {kept.flow} with --sample {kept.stretches}; nothing was read. Give "
                "the same options, or another file"
            )
        return kept

    def keep(self, one: MappedPartition, compared: Compared) -> None:
        """Note how far a partition is; the file is replaced as a whole."""
        self.done[_key(one)] = asdict(compared)
        if self.file is not None:
            content = {name: getattr(self, name) for name in ("cut", "flow", "stretches", "done")}
            beside = self.file.with_name(f"{self.file.name}.new")
            try:
                beside.write_text(json.dumps(content), encoding="utf-8")
                os.replace(beside, self.file)
            except OSError as error:
                raise MirrorLedgerError(
                    f"{self.file} cannot be written: {error.strerror}; the comparison was ended"
                ) from error

    def before(self, one: MappedPartition) -> Compared | None:
        """What an earlier process has noted of a partition."""
        said = self.done.get(_key(one))
        return None if said is None else decode(Compared, said)


def _key(one: MappedPartition) -> str:
    return f"{one.source.topic_id}/{one.source.partition}/{one.target.topic_id}"


@dataclass(frozen=True, slots=True)
class FlowComparison:
    """Partitions in the order of their topics, at a cut; `named`: rows of `not_equal` about records."""

    cut: str
    partitions: Sequence[Compared]
    named: Sequence[Mapping[str, Any]]

    @property
    def verdict(self) -> Verdict:
        found = {one.verdict for one in self.partitions}
        return next((one for one in Verdict if one in found), Verdict.UNKNOWN)


def compare_flow(
    context: Context,
    flow_name: str,
    asked: Asked,
    *,
    is_read: bool,
    say: Callable[[str], None],
    comparer: "Comparer",
) -> FlowComparison:
    """Compare a flow; not `is_read`: what is recorded alone, so that of no partition anything is known to be equal.

    `comparer`: who reads.

    Raises `PreconditionError` where the flow has never run, `UsageError` for a topic that it has not copied, and
    `ClusterUnavailableError` where a side does not answer.
    """
    flow = context.config.flow(flow_name)
    kept = Progress.of(asked.file, flow_name, asked.stretches)
    at = context.snapshot() if kept is None else answers.snapshot(context.config, kept.cut)
    answers.require_flow(context.config, at, flow_name)
    progress = kept or Progress(at.cut.token, flow_name, asked.file, asked.stretches)
    partitions = _chosen(mapped_partitions(at, flow_name), asked.topics, flow_name)
    named = [
        row
        for row in answers.run_query(at, "not_equal", {"flow": flow_name}).to_pylist()
        if row["subject"] == "records" and (not asked.topics or row["source_topic"] in asked.topics)
    ]
    if not is_read:
        return FlowComparison(progress.cut, [_unread(one, "nothing was read") for one in partitions], named)
    due = _due(context, flow, partitions)
    source, target = (context.cluster(alias).connection.reached for alias in (flow.source, flow.target))
    compared = comparer((source, target), due, asked, progress, say)
    return FlowComparison(progress.cut, compared, named)


def _chosen(partitions: Sequence[MappedPartition], topics: Sequence[str], flow: str) -> list[MappedPartition]:
    known = {one.source.topic for one in partitions}
    if unknown := sorted(set(topics) - known):
        raise UsageError(
            f"flow {flow} has copied nothing of topic {unknown[0]!r}; nothing was read. mirror-ledger status {flow} "
            "--partitions names what it copies"
        )
    return [one for one in partitions if not topics or one.source.topic in topics]


def _unread(one: MappedPartition, why: str) -> Compared:
    return Compared(
        source_topic=one.source.topic,
        partition=one.source.partition,
        target_topic=one.target.topic,
        mapped=one.records,
        checksummed=one.checksummed,
        verdict=Verdict.UNKNOWN,
        why=why,
    )


@dataclass(frozen=True, slots=True)
class Due:
    """A partition that is to be read: where its logs end, and whether a cleaner may be at work on either."""

    one: MappedPartition
    ends: "Ends"
    is_cleaned: bool


Sides = tuple[ClusterConfig, ClusterConfig]
Say = Callable[[str], None]
Comparer = Callable[[Sides, Sequence[Due], Asked, Progress, Say], Sequence[Compared]]
"""Reads the partitions at both sides, in one process or in many, and returns what they came to, in their order."""


def _due(context: Context, flow: FlowConfig, partitions: Sequence[MappedPartition]) -> list[Due]:
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    at_source = source.ends(sorted({(one.source.topic, one.source.partition) for one in partitions}))
    at_target = target.ends(sorted({(one.target.topic, one.target.partition) for one in partitions}))
    settings = source.topic_settings(sorted({one.source.topic for one in partitions})).read
    copied = target.topic_settings(sorted({one.target.topic for one in partitions})).read
    cleaned = {
        one.source.topic
        for one in partitions
        for found in (settings.get(one.source.topic), copied.get(one.target.topic))
        if found is None or "compact" in found.effective.get("cleanup.policy", "")
    }
    return [
        Due(
            one,
            (
                at_source.get((one.source.topic, one.source.partition)),
                at_target.get((one.target.topic, one.target.partition)),
            ),
            is_cleaned=one.source.topic in cleaned,
        )
        for one in partitions
    ]


def in_turn(sides: Sides, due: Sequence[Due], asked: Asked, progress: Progress, say: Say) -> list[Compared]:
    """Implements `Comparer`: in this process, over one connection to each leader."""
    clock, results = SystemClock(), []
    with closing(KafkaNetwork(*sides, request_timeout_s=_REQUEST_TIMEOUT_S)) as network:
        throttle = Throttle(clock, lambda s: _pause(network, clock, s), asked.bytes_per_second)
        for each in due:
            one = each.one
            logs = Logs(
                _log(network, network.source, clock, one.source),
                _log(network, network.target, clock, one.target),
            )
            result = compare_partition(
                one, each.ends, logs, asked, progress, throttle, is_cleaned=each.is_cleaned
            )
            results.append(result)
            say(said(result))
    return results


def said(result: Compared) -> str:
    """A partition that is done, in a line."""
    where = f"{result.source_topic} partition {result.partition}"
    return f"{where}: {result.verdict}, {result.found.records:,} records are the same"


def _pause(network: KafkaNetwork, clock: Clock, seconds: float) -> None:
    """While connections are held open."""
    until_s = clock.monotonic() + seconds
    while (left_s := until_s - clock.monotonic()) > 0:
        network.poll(min(left_s, 1.0))


def _log(
    network: KafkaNetwork, link: ClusterLink, clock: Clock, partition: TopicPartition
) -> PartitionReader:
    link.refresh([partition.topic])
    return PartitionReader(network, link, clock, partition, committed=False, undone=_UNDONE)


@dataclass(frozen=True, slots=True)
class Logs:
    """One partition at both sides."""

    source: ReadableLog
    target: ReadableLog


Ends = tuple[PartitionEnds | None, PartitionEnds | None]


def compare_partition(
    one: MappedPartition,
    ends: Ends,
    logs: Logs,
    asked: Asked,
    progress: Progress,
    throttle: Throttle,
    *,
    is_cleaned: bool,
) -> Compared:
    """One partition; what of it cannot be read any more is said, and is unknown.

    Once it is done that is noted; where reading failed, what was noted last stays.
    """
    before = progress.before(one)
    if before is not None and before.why is None:
        return before
    source, target = ends
    if source is None or target is None:
        return _unread(one, f"the {'source' if source is None else 'target'} partition has no leader")
    begin, expired = _readable_from(one, source, target)
    end = min(one.source_end, source.high_watermark)
    started = before if before is not None and before.read_to is not None and not is_cleaned else None
    result = started or replace(_unread(one, ""), found=Found(), expired=expired)
    noter = _Noter(one, result, progress if asked.stretches is None and not is_cleaned else None, throttle)
    try:
        for first, last in _stretches(max(begin, result.read_to or 0), end, asked.stretches):
            if (stretch := _within(one.pairs.stretch(first, last), target)) is not None:
                compare(
                    logs.source,
                    logs.target,
                    one.pairs,
                    stretch,
                    result.found,
                    is_cleaned=is_cleaned,
                    read=throttle,
                    note=noter,
                )
            result = replace(result, read_to=last)
        if is_cleaned and asked.stretches is None:
            keys, left_out = _compare_keys(one, source, target, logs, result.found, throttle)
            result = replace(result, keys=keys, keys_left_out=left_out)
    except (RefusedPartitionError, ClusterUnavailableError) as error:
        return _judged(replace(result, why=str(error)))
    if asked.stretches is not None:
        return _judged(replace(result, why=f"a sample was read: {result.found.records:,} records"))
    why = None if end == one.source_end else f"the source ends at {end}, and {one.source_end} was copied"
    done = _judged(replace(result, why=why))
    progress.keep(one, done)
    return done


def _within(stretch: Stretch | None, target: PartitionEnds) -> Stretch | None:
    """What the target has of it: behind its end there is nothing to read."""
    if stretch is None:
        return None
    end = max(min(stretch.target_end, target.high_watermark), stretch.target_start)
    return replace(stretch, target_end=end)


@dataclass(slots=True)
class _Noter:
    """Notes every few seconds how far a partition is; `progress` None: nothing of it is noted before its end."""

    one: MappedPartition
    result: Compared
    progress: Progress | None
    throttle: Throttle
    _noted_s: float = 0.0

    def __call__(self, offset: int) -> None:
        if self.progress is None or (now_s := self.throttle.seconds()) - self._noted_s < _NOTED_EVERY_S:
            return
        self._noted_s = now_s
        self.progress.keep(self.one, replace(self.result, read_to=offset, why="it was interrupted"))


def _judged(result: Compared) -> Compared:
    if result.found.differing:
        return replace(result, verdict=Verdict.DIFFERS)
    return replace(result, verdict=Verdict.EQUAL if result.why is None else Verdict.UNKNOWN)


def _readable_from(one: MappedPartition, source: PartitionEnds, target: PartitionEnds) -> tuple[int, int]:
    """From which source offset on both logs hold what the map has, and how many offsets of it lie below."""
    begin = source.log_start
    for segment in one.pairs.segments:
        if segment.target_end <= target.log_start:
            begin = max(begin, segment.source_end)
        elif segment.target_start < target.log_start:
            begin = max(begin, segment.source_start + target.log_start - segment.target_start)
    below = sum(
        min(segment.source_end, begin) - segment.source_start
        for segment in one.pairs.segments
        if segment.source_start < begin
    )
    return begin, below


def _stretches(begin: int, end: int, samples: int | None) -> Iterator[tuple[int, int]]:
    """All source offsets, or samples of a thousand, evenly apart, the first and the last among them."""
    if samples is None or (end - begin) <= samples * _SAMPLE_OFFSETS:
        if begin < end:
            yield begin, end
        return
    room = end - begin - _SAMPLE_OFFSETS
    for number in range(samples):
        first = begin + (room * number // (samples - 1) if samples > 1 else room)
        yield first, first + _SAMPLE_OFFSETS


def _compare_keys(
    one: MappedPartition,
    source: PartitionEnds,
    target: PartitionEnds,
    logs: Logs,
    found: Found,
    throttle: Throttle,
) -> tuple[int, int]:
    """Both logs from their beginnings to their ends: a later record of a key, whoever wrote it, counts."""
    here = last_of_keys(
        logs.source,
        source.log_start,
        source.last_stable,
        lambda offset: one.pairs.at_source(offset) is not None,
        found,
        throttle,
    )
    there = last_of_keys(
        logs.target,
        target.log_start,
        target.last_stable,
        lambda offset: one.pairs.at_target(offset) is not None,
        found,
        throttle,
    )
    return compare_keys(here, there, found)
