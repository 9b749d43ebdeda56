"""Salvaging: extras are copied to a topic of their own at the other cluster, and stay where they are.

An internal flow does that, beside the one that has copied the topic: it has the name of that with `.salvaged` behind
it, and its target topics have, too. It is a flow as any: a claim, a producer id and a map of its own, tasks that read
the end of the target before they write. So what was killed in the middle is continued, and each record is there once.
It copies the ranges that it is given, whoever wrote there meanwhile, and ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ledger.changeover.extras import Extras, ends_of_extras
from ledger.changeover.settling import claimed_again
from ledger.changeover.tail_pairing import first_own
from ledger.clock import SystemClock
from ledger.config.values import FilterConfig, FlowConfig, RenameConfig, TargetMode
from ledger.context import Context, require_stopped
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.identity import FlowProducer
from ledger.facts.roles import writer_of
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import (
    GapCause,
    OffsetRange,
    OffsetSync,
    PartitionPair,
    Position,
    SyncCause,
    SyncKind,
    TopicPartition,
    without,
)
from ledger.facts.tables import OFFSET_SYNCS
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, TopicDescription, live_cluster
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.topics import parts
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult
from ledger.mirror.driver import claim_row
from ledger.mirror.progress import Heartbeat
from ledger.mirror.states import FlowProgress, PartitionState
from ledger.mirror.task import CopyTask
from ledger.store.producers import KeptMirrorProducers, no_mirror_producers
from ledger.store.session import WriterSession
from ledger.topics.following import REQUIRED_AT_TARGET, is_fence
from ledger.topics.naming import SALVAGED, NamingKind, name_conflicts
from ledger.words import counted, some_of

_REQUEST_TIMEOUT_S = 30.0
_ROUND_S = 5.0
_UNAVAILABLE_AFTER_S = 60.0
_PARTITIONS_AT_ONCE = 50
_KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Records keep their times, and would expire at once; of each key all are wanted."""
_LIMIT = "max.message.bytes"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What came of it: `topics` of the target, and how many records of the extras are in the map of `flow` now."""

    flow: str
    topics: tuple[str, ...]
    records: int

    @property
    def words(self) -> str:
        return f"{self.flow}: {counted(self.records, 'record')} in {some_of(self.topics, 'topic')}"


def salvaging_flow(flow: FlowConfig) -> FlowConfig:
    """The internal flow beside one that is configured: it copies every record, to topics that others may write to."""
    return flow.model_copy(
        update={
            "name": f"{flow.name}{SALVAGED}",
            "topic_naming": NamingKind.RENAME,
            "prefix": None,
            "rename": (RenameConfig(match="(.*)", to=rf"\1{SALVAGED}"),),
            "target_mode": TargetMode.SHARED,
            "opposite": None,
            "sync_groups": False,
            "filter": FilterConfig(),
        }
    )


def salvage(context: Context, flow: FlowConfig, found: Sequence[Extras], say: Say) -> Salvaged:
    """Copy all of these extras of a flow; returns when each is at the target and recorded. Twice is as once.

    Raises `PreconditionError` while somebody else salvages, where a transaction is open, the target topic cannot be
    made, or a partition cannot be copied; `ClusterUnavailableError` where nothing could be copied for a minute. What
    was copied until then is recorded, and found when it is begun again.
    """
    own, state = salvaging_flow(flow), context.state
    require_stopped(own, state)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    ends = ends_of_extras(source, [one.partition for one in found])
    _require_committed(found, ends, flow.source)
    pairs = _target_pairs(own, source, target, [one.partition for one in found])
    last = state.last_claim(writer_of(own.name))
    row = claim_row(
        own, source=live_cluster(source), target=target, state=state, host=str(context.processes.own())
    )
    after = None if last is None else last.epoch
    with claimed_again(own, context.fact_log, state, row, after=after) as session:
        try:
            producer = state.identities().producers(str(row["target_cluster_id"]))[own.name]
            run = _Run(context, own, session, producer, source.cluster_id())
            run.begin(_begun(run, target, found, pairs))
            run.copy(say)
        finally:
            session.release()
    topics = tuple(sorted({pair.target.topic for pair in pairs.values()}))
    done = Salvaged(own.name, topics, sum(map(run.records_of, found)))
    say(done.words)
    return done


def _require_committed(
    found: Sequence[Extras], ends: Mapping[tuple[str, int], PartitionEnds], alias: str
) -> None:
    open_ones = [
        f"{one.partition.topic} partition {one.partition.partition}"
        for one in found
        if ends[one.partition.place].last_stable < one.ranges[-1][1]
    ]
    if open_ones:
        raise PreconditionError(
            f"a transaction is open in {some_of(open_ones, 'partition')} of {alias}: what lies behind it cannot be "
            "copied before it has ended; nothing was decided. Fence it with --abort-open-transactions-after, then try "
            "again"
        )


# Topics -------------------------------------------------------------------------------------------


def _target_pairs(
    own: FlowConfig, source: ClusterAdmin, target: ClusterAdmin, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, PartitionPair]:
    """By source partition; the target topics have as many partitions as their sources."""
    names = sorted({at.topic for at in partitions})
    for reason in name_conflicts(own.naming, names, same_cluster=False).values():
        raise PreconditionError(f"{reason}; nothing was decided. Keep its extras: --extras TOPIC=keep")
    at_source, there = source.topics(), target.topics()
    for name in names:
        _make_room(own, at_source[name], there, target)
    now = target.topics()
    found = {}
    for at in partitions:
        to = now.get(own.naming.target_name(at.topic))
        if to is None or to.partitions <= at.partition:
            raise PreconditionError(
                f"{own.naming.target_name(at.topic)} of {own.target} was deleted meanwhile; nothing was decided"
            )
        found[at] = PartitionPair(at, TopicPartition(to.name, to.topic_id, at.partition))
    return found


def _make_room(
    own: FlowConfig, source: TopicDescription, there: Mapping[str, TopicDescription], target: ClusterAdmin
) -> None:
    """Raises what the cluster says where the topic cannot be made, or given partitions."""
    name = own.naming.target_name(source.name)
    if name in there:
        if there[name].partitions < source.partitions:
            target.add_partitions(name, total=source.partitions)
        return
    replicas = own.replication_factor or min(source.replication_factor, target.broker_count())
    copied_to = [source.name] if source.name in there else []
    limit = target.configurations(copied_to).get(source.name, {}).get(_LIMIT)
    limits = {} if limit is None or is_fence(_LIMIT, limit) else {_LIMIT: limit}
    target.create_topic(
        name,
        partitions=source.partitions,
        replication_factor=replicas,
        configuration={**REQUIRED_AT_TARGET, **_KEPT_FOR_EVER, **limits},
    )


# Copying ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Begun:
    """A partition, up to where it is to be copied, and what lies between that is not."""

    state: PartitionState
    end: int
    left_out: tuple[OffsetRange, ...]

    @property
    def is_done(self) -> bool:
        return self.state.position.source_offset >= self.end and self.state.tail.both_sides_seen


class _Run:
    """One epoch of the internal flow."""

    def __init__(
        self,
        context: Context,
        own: FlowConfig,
        session: WriterSession,
        producer: FlowProducer,
        source_id: str,
    ) -> None:
        self.context, self.own, self.session, self.producer = context, own, session, producer
        self.progress = FlowProgress(context.state.positions(own.name), producer)
        self._heartbeat = Heartbeat(own, session, context.clock)
        self._source_id = source_id
        self._begun: list[_Begun] = []

    def begin(self, begun: Iterator[tuple[_Begun, list[OffsetSync]]]) -> None:
        """Record where partitions begin, before anything is written."""
        facts: list[OffsetSync] = []
        for one, of_it in begun:
            self._begun.append(one)
            facts += of_it
        # What supersedes is a round of its own: it voids what its own round says behind it.
        for is_last in (False, True):
            self._append([fact for fact in facts if (fact.kind is SyncKind.SUPERSEDED) != is_last])

    def copy(self, say: Say) -> None:
        """Until all is there, in rounds that are recorded one after the other."""
        relays = self.own.relay
        writers = (
            no_mirror_producers
            if relays
            else KeptMirrorProducers(self.context.config.ledger.path, self._source_id)
        )
        clusters = [self.context.config.cluster(alias) for alias in (self.own.source, self.own.target)]
        moved_at, clock = self.context.clock.monotonic(), self.context.clock
        with closing(KafkaNetwork(*clusters, request_timeout_s=_REQUEST_TIMEOUT_S)) as network:
            while left := [one for one in self._begun if not one.is_done]:
                for some in parts(left, _PARTITIONS_AT_ONCE):
                    task = CopyTask(
                        [self._assignment(one) for one in some],
                        network,
                        writers(),
                        SystemClock(),
                        CopyLimits(),
                    )
                    results = task.run(seconds=_ROUND_S)
                    if self._take(some, results):
                        moved_at = clock.monotonic()
                self._heartbeat.beat()
                if clock.monotonic() - moved_at > _UNAVAILABLE_AFTER_S:
                    reasons = sorted({one.trouble for one in results if one.trouble}) or ["no answer"]
                    raise ClusterUnavailableError(
                        f"{self.own.name}: nothing could be copied for {_UNAVAILABLE_AFTER_S:.0f} s: "
                        f"{'; '.join(reasons)}; what was copied before is recorded, and nothing was decided"
                    )
                copied = sum(one.state.position.source_offset >= one.end for one in self._begun)
                say(f"{self.own.name}: {copied} of {counted(len(self._begun), 'partition')} copied")

    def _take(self, some: Sequence[_Begun], results: Sequence[PartitionResult]) -> bool:
        """Record what a task did; whether it did anything. Raises where a partition cannot be copied."""
        by_source = {result.assignment.source: result for result in results}
        moved = False
        for one in some:
            result = by_source[one.state.pair.source]
            moved |= bool(result.syncs) or result.tail != one.state.tail
            one.state.position, one.state.tail = result.position, result.tail
        self._append([sync for result in results for sync in result.syncs])
        stops = {result.assignment.source: result.stop for result in results if result.stop is not None}
        if stops:
            names = [f"{at.topic} partition {at.partition}" for at in stops]
            first = next(iter(stops.values()))
            raise PreconditionError(
                f"{some_of(names, 'partition')} cannot be salvaged: {first.message}; what was copied before is "
                "recorded, and nothing was decided"
            )
        return moved

    def _assignment(self, one: _Begun) -> Assignment:
        state = one.state
        return Assignment(
            source=state.pair.source,
            target=state.pair.target,
            position=state.position,
            producer=self.producer,
            end_offset=one.end,
            exclusive=False,
            tail=state.tail,
            kept_local=one.left_out,
        )

    def _append(self, facts: Sequence[OffsetSync]) -> None:
        if facts:
            identity = FlowIdentity(self.own.name, self.own.source, self.own.target, self.producer.current)
            self.session.append(OFFSET_SYNCS.name, [sync_row(identity, fact) for fact in facts])

    def records_of(self, one: Extras) -> int:
        """How many records of extras the map has."""
        return sum(
            sync.sync.records
            for sync in self.context.state.recorded_syncs(
                self.own.name, one.partition.topic, one.partition.partition
            )
            if sync.sync.source == one.partition
            and any(start <= sync.sync.source_start < end for start, end in one.ranges)
        )


def _begun(
    run: _Run, target: ClusterAdmin, found: Sequence[Extras], pairs: Mapping[TopicPartition, PartitionPair]
) -> Iterator[tuple[_Begun, list[OffsetSync]]]:
    """Where each partition begins or continues, and what is to be recorded of that."""
    ends = target.ends([pair.target.place for pair in pairs.values()])
    for one in found:
        pair = pairs[one.partition]
        if pair.target.place not in ends:
            raise PreconditionError(
                f"{pair.target.topic} partition {pair.target.partition} of {run.own.target} has no leader; nothing "
                "was decided. Try again when it has one"
            )
        start, end = one.ranges[0][0], one.ranges[-1][1]
        left_out = tuple(without((start, end), one.ranges))
        state, facts = _state(run, target, ends[pair.target.place], pair, start)
        yield _Begun(state, end, left_out), facts


def _state(
    run: _Run, target: ClusterAdmin, there: PartitionEnds, pair: PartitionPair, start: int
) -> tuple[PartitionState, list[OffsetSync]]:
    recorded = run.progress.recorded(pair)
    if recorded is None:
        before = run.progress.recorded_at_target(pair)
        state = PartitionState(
            pair,
            Position(source_offset=start, target_offset=there.high_watermark, next_sequence=0)
            if before is None
            else replace(before.position, source_offset=start, leader_epoch=None),
        )
        return state, [state.started(SyncCause.EXTRAS)]
    if recorded.target_topic_id != pair.target.topic_id:
        return _begun_again(pair, there, recorded.position.source_offset, start)
    state = PartitionState(pair, recorded.position)
    if state.position.source_offset >= start:
        return state, []
    first = first_own(
        target,
        pair.target,
        max(state.position.target_offset, there.log_start),
        there.high_watermark,
        run.producer,
    )
    if first is not None:
        # An earlier attempt was killed, and the source has deleted since what it had come to.
        return state, [state.lose(start, SyncCause.RETENTION)]
    return state, [state.leave_out(start, GapCause.FILTERED)]


def _begun_again(
    pair: PartitionPair, there: PartitionEnds, position: int, start: int
) -> tuple[PartitionState, list[OffsetSync]]:
    """In a topic that was created again: what its former incarnation had of these extras is copied once more."""
    restart = Position(source_offset=min(position, start), target_offset=there.log_start, next_sequence=0)
    state = PartitionState(pair, replace(restart, source_offset=position))
    facts = [state.supersede(restart, SyncCause.TARGET_RECREATED)]
    return state, [*facts, state.leave_out(start, GapCause.FILTERED)] if start > position else facts
