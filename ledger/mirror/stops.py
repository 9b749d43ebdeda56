"""What a driver does about a partition that a task could not continue, by the flow's policies.

Records that were deleted are facts before anything else happens: lost (L6) or superseded. Then the partition
resumes or stops, as the flow says. Everything that a policy does not cover stops.
"""

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.config.values import FlowConfig, Policy, TargetMode
from ledger.errors import ProtocolError
from ledger.facts.extras import ExtraRange, ExtrasDecided, ExtrasPolicy
from ledger.facts.history import Segment, expand
from ledger.facts.identity import FlowProducer
from ledger.facts.operations import PartitionResumed, PartitionStopped, TailCopiedAgain
from ledger.facts.requests import RequestKind, command_line
from ledger.facts.state import LedgerState, OperationLog
from ledger.facts.syncs import (
    SEQUENCED_KINDS,
    GapCause,
    OffsetRange,
    OffsetSync,
    PartitionPair,
    Position,
    RecordedSync,
    SyncCause,
    SyncKind,
    TopicPartition,
    by_source_incarnation,
    holding,
)
from ledger.facts.truncation import common_end, is_as_recorded, restart_after_target_truncation, sequence_at
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds
from ledger.mirror.assignment import Divergence, PartitionResult, Stop, StopCause
from ledger.mirror.lost_markers import first_ended_otherwise, has_lost_markers
from ledger.mirror.source_history import SourceHistory
from ledger.mirror.states import PartitionState, ends_of_incarnation
from ledger.words import by_topic, of_topic, shell_word

# Target history -----------------------------------------------------------------------------------
# Up to where a target log still holds what the flow wrote there, by the batches that lie there.
#
# The end of a log alone does not tell: a log that lost its end grows again, by others' records or by a
# request of the flow's own that was late.


@dataclass(frozen=True, slots=True)
class TargetHistory:
    """What a flow recorded of one target partition, to be compared with what lies there."""

    target: ClusterAdmin
    partition: TopicPartition
    producer: FlowProducer
    recorded: tuple[RecordedSync, ...]

    def held_end(self, end: int, *, log_start: int) -> int:
        """The highest recorded end, at most `end`, up to which the log is the one that was recorded.

        A log loses records from its end only, so recorded ends are searched by halves. A hole that a cleaner
        left, and what is below the log's start, prove nothing and count as held. `log_start` when nothing that
        the flow wrote is left: then any of its requests may have come late, to any place.
        """
        ends = self._ends(end)
        lost = bisect_left(ends, True, key=lambda at: not self._is_held(at))
        if lost:
            return ends[lost - 1]
        return log_start if ends else end

    def held_behind(self, whole_below: int, end: int) -> int:
        """Up to where each record that the map has from an offset to `end` lies there, in a log that may lack some.

        It may have lost its end at that offset, and the flow may have written behind that again.
        """
        incarnations = by_source_incarnation(self.recorded).values()
        claims = sorted(
            (sync.target_start, sync.target_end)
            for sync in (sync for rows in incarnations for sync in holding(rows))
            if sync.kind in SEQUENCED_KINDS
            and sync.records
            and sync.target.topic_id == self.partition.topic_id
            and sync.target_end > whole_below
        )
        for start, stop in claims:
            first = max(start, whole_below)
            if not (self._is_held(first + 1, may_end=True) and self._is_held(stop, may_end=True)):
                return first
        return end

    @property
    def knows_any(self) -> bool:
        """Whether any record of the flow's was recorded in this incarnation of the topic."""
        written = (row.sync for row in self.recorded if row.sync.kind in SEQUENCED_KINDS and row.sync.records)
        return any(sync.target.topic_id == self.partition.topic_id for sync in written)

    def _ends(self, end: int) -> list[int]:
        topic_id = self.partition.topic_id
        return sorted(
            min(sync.target_end, end)
            for sync in (row.sync for row in self.recorded)
            if sync.kind in SEQUENCED_KINDS
            and sync.records
            and sync.target.topic_id == topic_id
            and sync.target_start < end
        )

    def _is_held(self, end: int, *, may_end: bool = False) -> bool:
        """Whether the record before `end` is the flow's own with the sequence that it was recorded with.

        `may_end`: the log may end below.
        """
        found = next(iter(self.target.batches_at(self.partition, end - 1)), None)
        if found is None or found.base_offset >= end:
            return found is not None or not may_end
        return self.producer.wrote(found.producer_id) and is_as_recorded(
            self.recorded,
            self.partition.topic_id,
            end - 1,
            producer_id=found.producer_id,
            sequence=found.sequence_at(end - 1),
        )


# Stop policies ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """Facts to record, and why the partition stops; neither: it is tried again. `notice`: what to tell."""

    facts: tuple[OffsetSync, ...] = ()
    stop: Stop | None = None
    notice: str | None = None


TRY_AGAIN = PolicyOutcome()
POLICY_CAUSES = frozenset(
    {
        StopCause.SOURCE_OUT_OF_RANGE,
        StopCause.SOURCE_TRUNCATED,
        StopCause.TARGET_OUT_OF_RANGE,
        StopCause.SEQUENCE_REFUSED,
    }
)
"""Causes that a driver examines before it stops a partition or resumes it."""


@dataclass(frozen=True, slots=True)
class StopPolicies:
    """The flow's policies, with what they need to know; all is recorded when an outcome is asked for."""

    flow: FlowConfig
    source: ClusterAdmin
    target: ClusterAdmin
    producer: FlowProducer
    state: LedgerState

    def to(self, state: PartitionState, result: PartitionResult, stop: Stop) -> PolicyOutcome:
        """React to a stop that a task came back with; moves its state.

        Where a cluster does not answer, `ClusterUnavailableError` is raised and the state stands where it stood: a
        position that moves without its fact would leave rows that hold no longer.
        """
        match stop.cause:
            case StopCause.SOURCE_OUT_OF_RANGE:
                return self._source_out_of_range(state, result, stop)
            case StopCause.SOURCE_TRUNCATED if result.divergence is not None:
                return self._source_truncated(state, result.divergence, stop.message)
            case StopCause.SOURCE_TRUNCATED:
                return self._source_differs(state, result, stop)
            case StopCause.TARGET_OUT_OF_RANGE:
                return self._target_out_of_range(
                    state, result.target_lost_from, whole_below=result.target_whole_below
                )
            case StopCause.SEQUENCE_REFUSED:
                return self._sequence_refused(state, stop)
            case _:
                return PolicyOutcome(stop=stop)

    def _source_out_of_range(
        self, state: PartitionState, result: PartitionResult, stop: Stop
    ) -> PolicyOutcome:
        ends = ends_of_incarnation(self.source, state.pair.source)
        if ends is None:
            return TRY_AGAIN
        copied_end = state.position.source_offset
        if ends.log_start > copied_end:
            return self._lost(state, ends.log_start)
        if ends.high_watermark < copied_end:
            return self._source_went_back(state, ends)
        message = (
            f"{stop.message}; it holds other records there than those copied: its leader epochs went back"
        )
        return self._source_differs(state, result, replace(stop, message=message))

    def _source_went_back(self, state: PartitionState, ends: PartitionEnds) -> PolicyOutcome:
        message = (
            f"the source ends at {ends.high_watermark}, this flow had copied up to {state.position.source_offset}: "
            "the source lost records"
        )
        return self._source_truncated(state, Divergence(None, ends.high_watermark), message)

    def _lost(self, state: PartitionState, log_start: int) -> PolicyOutcome:
        copied_end = state.position.source_offset
        message = f"source offsets {copied_end} to {log_start} were deleted before they were copied"
        topic = state.pair.source.topic
        fact = state.lose(log_start, loss_cause(self.source.configurations([topic]).get(topic, {})))
        return self._by_policy(self.flow.on_loss, (fact,), Stop(StopCause.LOST, message))

    def _recorded(self, state: PartitionState) -> Sequence[RecordedSync]:
        """All rows of a partition, those of other incarnations of its source topic among them: slow to read."""
        source = state.pair.source
        return self.state.recorded_syncs(self.flow.name, source.topic, source.partition)

    def _source_differs(self, state: PartitionState, result: PartitionResult, stop: Stop) -> PolicyOutcome:
        """React to a last record that seems to be another one at the source: by the map it is, or not."""
        learned, state.tail = state.tail, replace(state.tail, source_epoch=None)
        at, ends = state.position, ends_of_incarnation(self.source, state.pair.source)
        if ends is None or ends.high_watermark < at.source_offset:
            return TRY_AGAIN
        recorded = by_source_incarnation(self._recorded(state)).get(state.pair.source.topic_id, [])
        is_cleaned = result.assignment.is_source_cleaned or result.assignment.is_target_cleaned
        is_unknown, other = self._compared(state, recorded, at.source_offset, is_cleaned=is_cleaned)
        other = self._filled_gap(_held(state, recorded), result) if other is None else other
        if other is not None:
            message = f"{stop.message}: {_other_from(other)}"
            return self._source_truncated(state, Divergence(None, other), message)
        state.is_uncompared = is_unknown
        if stop.cause is StopCause.SOURCE_OUT_OF_RANGE:
            state.position = replace(at, leader_epoch=None)
            if not is_unknown:
                return TRY_AGAIN
            no_epoch = state.supersede(
                state.position, SyncCause.SOURCE_TRUNCATED
            )  # to ask by, after `resume`
            return PolicyOutcome((no_epoch,), replace(stop, cause=StopCause.SOURCE_TRUNCATED))
        state.tail = learned
        return TRY_AGAIN

    def _compared(
        self, state: PartitionState, recorded: Sequence[RecordedSync], end: int, *, is_cleaned: bool = True
    ) -> tuple[bool, int | None]:
        """Whether nothing below an offset can be compared, and from which one on the source has other records."""
        logs = ((self.source, state.pair.source), (self.target, state.pair.target))
        starts = [0 if (ends := ends_of_incarnation(*log)) is None else ends.log_start for log in logs]
        copied = [one for sync in _held(state, recorded) for one in expand(sync) if one.source_start < end]
        segments = sorted(held for one in copied if (held := _held_of(one, *starts, end=end)))
        history = SourceHistory(self.source, self.target, state.pair, segments, is_cleaned)
        is_known, other = history.compared() if segments else (not copied, None)
        return not is_known, other

    def _filled_gap(self, held: Sequence[OffsetSync], result: PartitionResult) -> int | None:
        """Where a gap begins in which the source has a record to copy now, and had none; None where it may have had."""
        rules, offset = result.assignment, result.seen_at
        if offset is None or not held:
            return None
        causes = {GapCause.CONTROL, GapCause.ABORTED}
        if not (self.flow.relay or rules.returning or rules.mistakable or self._has_adopted(held[0].source)):
            causes.add(GapCause.MIRROR_WRITE)
        gaps = (gap for sync in held for gap in sync.gaps if gap.cause in causes)
        found = (gap.source_start for gap in gaps if offset in range(gap.source_start, gap.source_end))
        return next(found, None)

    def _has_adopted(self, source: TopicPartition) -> bool:
        return any(
            row.kind is SyncKind.ADOPTED for rows in self.state.adoptions({source.topic_id}) for row in rows
        )

    def _source_truncated(self, state: PartitionState, divergence: Divergence, message: str) -> PolicyOutcome:
        """What lies below the end that was reported may be others, too: an older copy has had its epochs before."""
        recorded = by_source_incarnation(self._recorded(state)).get(state.pair.source.topic_id, [])
        common = common_end(recorded, epoch=divergence.epoch, end=divergence.end)
        at = state.position
        is_unknown, other = self._compared(state, recorded, min(common.source_end, at.source_offset))
        if other is not None:
            common = common_end(recorded, epoch=None, end=other)
            message = f"{message}; {_other_from(other)}"
        restart = replace(
            at,
            source_offset=min(common.source_end, at.source_offset),
            leader_epoch=common.leader_epoch,
        )
        message = f"{message}; source offsets {restart.source_offset} to {at.source_offset} are superseded"
        asks_for_outcomes = has_lost_markers(recorded)
        ends = ends_of_incarnation(self.source, state.pair.source) if asks_for_outcomes else None
        fact = state.supersede(restart, SyncCause.SOURCE_TRUNCATED)
        state.asks_for_outcomes, state.is_uncompared = asks_for_outcomes, is_unknown
        if ends is not None and self._is_open_again(state, ends):
            message += f"; {open_again(state)}"
        stop = Stop(StopCause.SOURCE_TRUNCATED, message)
        return self._by_policy(self.flow.on_source_truncated, (fact,), stop)

    def ended_otherwise(self, state: PartitionState) -> PolicyOutcome:
        """React to transactions that the source has ended otherwise than they were copied, after it lost its end.

        Until all are decided of which it may have lost the marker, nothing is known and the partition waits.
        """
        at, ends = state.position, ends_of_incarnation(self.source, state.pair.source)
        if ends is None:
            return TRY_AGAIN
        if ends.high_watermark < at.source_offset:
            return self._source_went_back(state, ends)
        if state.open_from is not None and self._is_open_again(state, ends):
            return TRY_AGAIN
        recorded = by_source_incarnation(self._recorded(state)).get(state.pair.source.topic_id, [])
        first = None
        if has_lost_markers(recorded):
            if self._is_open_again(state, ends) or ends.last_stable == at.source_offset < ends.high_watermark:
                return TRY_AGAIN
            first = first_ended_otherwise(
                self.source,
                state.pair.source,
                holding(recorded),
                log_start=ends.log_start,
                end=at.source_offset,
                open_from=state.open_from,
            )
        state.asks_for_outcomes, state.open_from = False, None
        if first is None:
            return TRY_AGAIN
        fact = state.supersede(replace(at, source_offset=first, leader_epoch=None), SyncCause.MARKER_LOST)
        message = (
            "the source lost the markers of transactions with its end, and has ended some from source offset "
            f"{first} on otherwise than they were copied; source offsets {first} to {at.source_offset} are "
            "superseded, and what is committed there is copied again, behind its former copy"
        )
        return self._by_policy(
            self.flow.on_source_truncated, (fact,), Stop(StopCause.SOURCE_TRUNCATED, message)
        )

    def _is_open_again(self, state: PartitionState, ends: PartitionEnds) -> bool:
        """Whether transactions that began before the position are open, whose markers the source had."""
        is_open = ends.last_stable < state.position.source_offset
        if is_open:
            state.open_from = min(ends.last_stable, state.open_from or ends.last_stable)
        return is_open

    def lost_unattended(
        self, states: Sequence[PartitionState]
    ) -> Iterator[tuple[PartitionState, PolicyOutcome]]:
        """React to targets that end before what was copied to them, where nothing is copied that could be stopped."""
        ends = self.target.ends([state.pair.target.place for state in states]) if states else {}
        short = [
            state
            for state in states
            if (found := ends.get(state.pair.target.place)) is not None
            and found.high_watermark < state.position.target_offset
        ]
        listed = {topic.topic_id for topic in self.target.topics().values()} if short else frozenset[str]()
        for state in short:
            if state.pair.target.topic_id not in listed:
                continue
            try:
                outcome = self._target_out_of_range(state, None)
            except ProtocolError as error:
                source = state.pair.source
                log.warning(
                    "%(topic)s partition %(partition)d: the target's log could not be read: %(cause)s",
                    {"topic": source.topic, "partition": source.partition, "cause": error},
                )
                continue
            notice = outcome.notice if outcome.stop is None else outcome.stop.message
            yield state, PolicyOutcome(outcome.facts, notice=notice)

    def _target_out_of_range(
        self, state: PartitionState, lost_from: int | None, *, whole_below: int | None = None
    ) -> PolicyOutcome:
        ends = ends_of_incarnation(self.target, state.pair.target)
        if ends is None:
            return TRY_AGAIN
        if ends.log_start > state.position.target_offset:
            return self._expired(state, ends.log_start)
        recorded = self._recorded(state)
        history = TargetHistory(self.target, state.pair.target, self.producer, tuple(recorded))
        known_end = min(state.position.target_offset, ends.high_watermark)
        if whole_below is not None:
            whole_below = max(whole_below, ends.log_start)  # what is deleted proves nothing
            held_end = history.held_behind(whole_below, state.position.target_offset)
            state.tail = replace(state.tail, leader_epoch=None)
        else:
            held_end = history.held_end(
                known_end if lost_from is None else min(lost_from, known_end), log_start=ends.log_start
            )
        if held_end == state.position.target_offset:
            at = state.position
            has_written = at.next_sequence or at.former_sequence is not None
            if history.knows_any or not has_written or held_end == ends.log_start:
                return TRY_AGAIN
            # The position is of another incarnation of the target: no row says that the flow wrote to this one.
            held_end = ends.log_start
        return self._target_truncated(state, held_end, recorded)

    def _expired(self, state: PartitionState, log_start: int) -> PolicyOutcome:
        """The target's retention passed the recorded end: nobody can tell what of the flow lay between.

        Others write to a shared target, so its log start passes a flow that is quiet. In an exclusive target nothing
        lies between but what the flow wrote and did not record, or what nobody was to write.
        """
        message = (
            f"the target's log begins at {log_start} and this flow is recorded up to "
            f"{state.position.target_offset}: what lay between was deleted there, unrecorded records of this flow "
            "included if there were any"
        )
        is_accepted = state.accepted_below >= log_start
        if self.flow.target_mode is TargetMode.EXCLUSIVE and not is_accepted:
            return PolicyOutcome(stop=Stop(StopCause.TARGET_OUT_OF_RANGE, f"{message}; nothing was written"))
        remembered = self.target.next_sequence(state.pair.target, self.producer.current)
        state.target_log_start, state.remembered_sequence = log_start, remembered
        return PolicyOutcome(notice=f"{message}; continuing there")

    def _sequence_refused(self, state: PartitionState, stop: Stop) -> PolicyOutcome:
        """The target remembers another last sequence, and the task found nothing of the flow that tells why.

        Explained where the target's log begins at the recorded end or behind it: requests that came late, after the
        target had lost its end, wrote what its retention has deleted since. The source offsets were superseded with
        that end, so they are copied again, and only the sequence is to be learned.
        """
        ends = ends_of_incarnation(self.target, state.pair.target)
        if ends is None:
            return TRY_AGAIN
        remembered = self.target.next_sequence(state.pair.target, self.producer.current)
        may_be_deleted = ends.log_start > 0 and state.position.target_offset <= ends.log_start
        expected = state.position.next_sequence
        if remembered is None or remembered == expected or not may_be_deleted:
            return PolicyOutcome(stop=stop)
        message = (
            f"the target remembers that {remembered} is next of this flow, not {expected}, and its log "
            f"begins at {ends.log_start}: unrecorded records of this flow below were deleted there"
        )
        return PolicyOutcome(
            (state.expired(next_sequence=remembered),), notice=f"{message}; continuing there"
        )

    def _target_truncated(
        self, state: PartitionState, kept_end: int, recorded: Sequence[RecordedSync]
    ) -> PolicyOutcome:
        """What the target lost is copied again; what earlier incarnations of the source had there cannot be."""
        target_id = state.pair.target.topic_id
        sequence = sequence_at(recorded, target_id, kept_end, producer_id=self.producer.current)
        expected = state.position.next_sequence
        following = expected if sequence is None else sequence

        def restart_of(rows: Sequence[RecordedSync]) -> Position | None:
            """Where the copy of one incarnation of the source continues; None when nothing of it was lost."""
            there = [sync for sync in holding(rows) if sync.target.topic_id == target_id]
            return restart_after_target_truncation(there, kept_end, next_sequence=following)

        incarnations = by_source_incarnation(recorded)
        restart = restart_of(incarnations.pop(state.pair.source.topic_id, ())) or replace(
            state.position, target_offset=kept_end, next_sequence=following
        )
        lost = [
            _lost_at_target(holding(rows)[-1], former)
            for rows in incarnations.values()
            if (former := restart_of(rows)) is not None
        ]
        message = (
            f"the target went back to {kept_end}, this flow had written up to {state.position.target_offset}: the "
            f"target lost records; source offsets {restart.source_offset} to {state.position.source_offset} are "
            "superseded"
        )
        for gone in lost:
            message += (
                f"; what it held of source offsets {gone.source_start} to {gone.source_end} of topic id "
                f"{gone.source.topic_id}, which was deleted since, is lost"
            )
        fact = state.supersede(restart, SyncCause.TARGET_TRUNCATED)
        stop = Stop(StopCause.TARGET_TRUNCATED, message)
        return self._by_policy(self.flow.on_target_truncated, (fact, *lost), stop)

    def _by_policy(self, policy: Policy, facts: tuple[OffsetSync, ...], stop: Stop) -> PolicyOutcome:
        if policy is Policy.CONTINUE:
            return PolicyOutcome(facts, notice=f"{stop.message}; continuing")
        return PolicyOutcome(facts, stop)


def _held(state: PartitionState, recorded: Sequence[RecordedSync]) -> list[OffsetSync]:
    """What holds of one incarnation of the source, of the target as it is now."""
    return [one for one in holding(recorded) if one.target.topic_id == state.pair.target.topic_id]


def _held_of(one: Segment, log_start: int, target_log_start: int, *, end: int) -> Segment | None:
    """What of a segment both logs hold below a source offset."""
    gone = max(0, log_start - one.source_start, target_log_start - one.target_start)
    start, end = one.source_start + gone, min(one.source_end, end)
    return Segment(start, end, one.target_start + gone) if start < end else None


def _other_from(offset: int) -> str:
    return (
        f"from offset {offset} on it holds others than those that were copied; it was brought back from an older copy, "
        "or lost its end and has grown past it since"
    )


def open_again(state: PartitionState) -> str:
    """What is open, in words, of transactions whose markers the source lost."""
    return (
        f"transactions with records from source offset {state.open_from} on are open at the source again, whose "
        "markers it lost with its end: whether what was copied of them is committed is not known until they end there"
    )


def _lost_at_target(last: OffsetSync, restart: Position) -> OffsetSync:
    """What an earlier incarnation of the source, which ended with `last`, had at the target is lost from there on."""
    position = Position(source_offset=last.source_end, target_offset=last.target_end, next_sequence=0)
    state = PartitionState(PartitionPair(last.source, last.target), position)
    return state.supersede(restart, SyncCause.TARGET_TRUNCATED)


# Stop advice --------------------------------------------------------------------------------------
# What an operator can do about a stopped partition: in words, and as the command to type.
#
# A stop lasts over restarts of the driver until a request ends it.


@dataclass(frozen=True, slots=True)
class Advice:
    """The next step, and the request that lets the partition resume; None: no request does."""

    words: str
    request: RequestKind | None


ADVICE = {
    StopCause.LOST: Advice(
        'the records were deleted; `resume` continues after them, on_loss = "continue" always does',
        RequestKind.RESUME,
    ),
    StopCause.SOURCE_TRUNCATED: Advice(
        "the copies of the truncated records stay at the target; `resume` continues where both agree, "
        "`resync` copies again from an offset of your choice",
        RequestKind.RESUME,
    ),
    StopCause.SOURCE_RECREATED: Advice(
        "`resume` copies the new topic to the end of the same target topic", RequestKind.RESUME
    ),
    StopCause.TARGET_TRUNCATED: Advice("`resume` copies again what the target lost", RequestKind.RESUME),
    StopCause.TARGET_RECREATED: Advice(
        "`resume` copies all that the source still has into the new topic", RequestKind.RESUME
    ),
    StopCause.SOURCE_OUT_OF_RANGE: Advice("check the source's log; `resume` tries again", RequestKind.RESUME),
    StopCause.TARGET_OUT_OF_RANGE: Advice(
        "retention at the target deleted what lay behind the flow's recorded end; `accept-foreign` records how far "
        "and continues where the target's log begins, `resync` also copies again from an offset of your choice",
        RequestKind.ACCEPT_FOREIGN,
    ),
    StopCause.FOREIGN_WRITE: Advice(
        "where they are copies of this source that MirrorMaker 2 or another tool made before the flow had copied any, "
        "stop that, and `adopt` takes them over; else stop the other writer, then `accept-foreign` continues behind "
        "what the target holds now: what is at the source is copied, and would be there twice if they are copies; "
        'where others are meant to write there, set target_mode = "shared"; do none of these where the records are '
        "copies by a flow of another name",
        RequestKind.ACCEPT_FOREIGN,
    ),
    StopCause.TAIL_MISMATCH: Advice(
        "compare both topics from that offset on; `accept-foreign` records what cannot be paired and continues, "
        'on_tail_lost = "copy_again" always does',
        RequestKind.ACCEPT_FOREIGN,
    ),
    StopCause.SEQUENCE_REFUSED: Advice(
        "another writer may have used this flow's producer id: search the target for records of it; "
        "`resume` tries again",
        RequestKind.RESUME,
    ),
    StopCause.SOURCE_TOPIC_GONE: Advice(
        "nothing, if the topic was meant to be deleted; its copy stays at the target", None
    ),
    StopCause.TARGET_TOPIC_GONE: Advice(
        "the target topic is created again at the next refresh of topics; then `resume`", RequestKind.RESUME
    ),
    StopCause.DENIED: Advice(
        "grant the missing permission to the mirror's principal, then `resume`", RequestKind.RESUME
    ),
    StopCause.REFUSED: Advice(
        "change the target topic's setting that the message names, which following leaves so, then `resume`; "
        "or `skip-to` leaves the record out",
        RequestKind.RESUME,
    ),
    StopCause.TOO_LARGE: Advice(
        "`skip-to` with the offset behind the batch leaves it out; without a filter it is copied as it is, unless a "
        "cleaner has been at work in it: `resume` tries again",
        RequestKind.RESUME,
    ),
    StopCause.CORRUPT: Advice(
        "check the source's log on that broker; `resume` tries again, `skip-to` leaves it out",
        RequestKind.RESUME,
    ),
    StopCause.TARGET_CORRUPT: Advice(
        "check the target's log on that broker; `resume` tries again. Where nothing below is needed any more, delete "
        "the target's records up to behind that offset (kafka-delete-records.sh)",
        RequestKind.RESUME,
    ),
    StopCause.FAILED: Advice(
        "a defect of this program: report the message; `resume` tries again, `skip-to` continues behind it",
        RequestKind.RESUME,
    ),
    StopCause.SHUT_OUT: Advice(
        "the target was promoted: applications come back by a plan in the other direction (`plan failback` after a "
        "failover, else `plan switchover`)",
        None,
    ),
    StopCause.UNKNOWN: Advice(
        "a later version of this program stopped it: use that version, or `resume` tries again with this one",
        RequestKind.RESUME,
    ),
    StopCause.COPIED_BY_ANOTHER_FLOW: Advice(
        "let one flow copy it: give the flow its former name back, leave the topic out of one of the two, or give "
        "this one target topics of its own; then start it again",
        None,
    ),
    StopCause.PROMOTED: Advice(
        "nothing is to be copied there while applications write at the target. The way back is a plan in the other "
        "direction (`plan failback` after a failover, else `plan switchover`); no request ends this stop",
        None,
    ),
    StopCause.OPPOSITE_HOLDS: Advice(
        "nothing while applications write at the target; where they write at the source, `promote` it over the target",
        None,
    ),
    StopCause.CUT_NOT_HELD: Advice(
        "take a cut again and start the flow with that (run --from-cut, or promote and demote --keep-ends); or start "
        "it without one: it reads all that is there, and `accept-foreign` continues behind it",
        None,
    ),
}


def advice(cause: StopCause) -> str:
    """The next step, in words."""
    return ADVICE[cause].words


def command(cause: str, *, flow: str, topic: str, partition: int | None) -> str | None:
    """The command that lets a partition resume, or all stopped ones of the topic (None). None: no single one does."""
    request = ADVICE[StopCause(cause)].request if cause in set(StopCause) else None
    return None if request is None else command_line(request, flow, topic=topic, partition=partition)


# Stopped entries ----------------------------------------------------------------------------------
# Stopped partitions as an operator deals with them: those of one topic and one cause are one entry.
#
# A command for a whole topic resumes every stopped partition of it, whatever stopped it. So an entry has
# one command when all that stopped of its topic is in it; else one for each of its partitions.


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """A partition that stands still: why, what was seen, and what to do in words.

    `has_copied`: whether anything of it is recorded but where the flow began.
    """

    topic: str
    partition: int
    cause: str
    message: str
    next: str | None
    has_copied: bool = True


@dataclass(frozen=True, slots=True)
class StoppedEntry:
    """`message`: what was seen at the first partition; `differing`: how many others stopped at other values.

    `commands` resume the partitions; empty when no single request does.
    """

    topic: str
    partitions: tuple[int, ...]
    cause: str
    message: str
    differing: int
    next: str | None
    commands: tuple[str, ...]

    @property
    def where(self) -> str:
        """The partitions, in few words."""
        return of_topic(self.topic, self.partitions)

    @property
    def seen(self) -> str:
        """What was seen, in one line; of several partitions the first stands for those with other values."""
        if not self.differing:
            return self.message
        others = f"{self.differing} other{'s' if self.differing > 1 else ''}"
        return f"at partition {self.partitions[0]}: {self.message} (at {others}: the same with other values)"


def stopped_entries(flow: str, stopped: Iterable[StoppedPartition]) -> list[StoppedEntry]:
    """One entry for each topic and cause, in the order of topics and of their first partitions."""
    by_topic: dict[str, dict[str, list[StoppedPartition]]] = {}
    for one in sorted(stopped, key=lambda one: (one.topic, one.partition)):
        by_topic.setdefault(one.topic, {}).setdefault(one.cause, []).append(one)
    return [
        _entry(flow, alike, is_all_of_topic=len(causes) == 1)
        for causes in by_topic.values()
        for alike in causes.values()
    ]


def _entry(flow: str, stopped: Sequence[StoppedPartition], *, is_all_of_topic: bool) -> StoppedEntry:
    first = stopped[0]
    numbers = tuple(one.partition for one in stopped)
    named: list[int | None] = [None] if is_all_of_topic and len(numbers) > 1 else [*numbers]
    found = [command(first.cause, flow=flow, topic=first.topic, partition=number) for number in named]
    if first.cause == StopCause.FOREIGN_WRITE and not any(one.has_copied for one in stopped):
        found.insert(0, f"mirror-ledger adopt {shell_word(flow)} --topic {shell_word(first.topic)}")
    return StoppedEntry(
        first.topic,
        numbers,
        first.cause,
        first.message,
        sum(one.message != first.message for one in stopped),
        first.next,
        tuple(command for command in found if command is not None),
    )


# Stop events --------------------------------------------------------------------------------------
# Records and logs that partitions stopped, resumed, or are copied again: all that happen together by one
# append.


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StopEvents:
    """Writes `partition_stopped`, `partition_resumed` and `tail_copied_again` rows of one flow, and `extras_decided` of
    markers."""

    flow: str
    operations: OperationLog

    def stopped(self, stops: Sequence[tuple[PartitionPair, Stop]]) -> None:
        """All of them at once or none: a promotion stops a thousand partitions, and applications wait for it."""
        if not stops:
            return
        self._log(stops)
        entries = [(str(stop.cause), _stopped(pair, stop)) for pair, stop in stops]
        self.operations.record_all(entries, flow=self.flow)

    def _log(self, stops: Iterable[tuple[PartitionPair, Stop]]) -> None:
        """A line for each partition in trouble, one for all that a promotion stops: whoever promotes means that."""
        promoted: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for pair, stop in stops:
            source = pair.source
            if stop.cause is StopCause.PROMOTED:
                promoted[stop.message].append(source.place)
            else:
                log.error(
                    "%(flow)s: %(topic)s partition %(partition)d stopped: %(what)s",
                    {
                        "flow": self.flow,
                        "topic": source.topic,
                        "partition": source.partition,
                        "cause": stop.cause,
                        "what": stop.message,
                    },
                )
        for message, partitions in promoted.items():
            log.info(
                "%(flow)s: %(partitions)s stopped: %(cause)s",
                {"flow": self.flow, "partitions": by_topic(partitions), "cause": message},
            )

    def resumed(self, pairs: Sequence[PartitionPair]) -> None:
        """The same of those that make progress again."""
        if pairs:
            sources = [pair.source for pair in pairs]
            resumed = [
                PartitionResumed(topic=at.topic, topic_id=at.topic_id, partition=at.partition)
                for at in sources
            ]
            self.operations.record_all([(None, one) for one in resumed], flow=self.flow)

    def copied_again(self, pair: PartitionPair, message: str) -> None:
        """Nothing stopped: the flow's policy is to copy again."""
        source = pair.source
        log.warning(
            "%(flow)s: %(topic)s partition %(partition)d: %(cause)s",
            {"flow": self.flow, "topic": source.topic, "partition": source.partition, "cause": message},
        )
        again = TailCopiedAgain(
            topic=source.topic, topic_id=source.topic_id, partition=source.partition, message=message
        )
        self.operations.record(again, flow=self.flow, reason="on_tail_lost")

    def markers(self, cluster: str, at: TopicPartition, ranges: Iterable[OffsetRange]) -> None:
        """They stay at the target: no group has to read them, and nobody has to decide about them."""
        stay = ExtrasDecided(
            cluster=cluster,
            cluster_id=None,
            topic=at.topic,
            topic_id=at.topic_id,
            policy=ExtrasPolicy.KEEP_LOCAL,
            ranges=tuple(
                ExtraRange(partition=at.partition, extra_start=start, extra_end=end) for start, end in ranges
            ),
        )
        self.operations.record(stay, flow=self.flow, reason="markers of transactions")


def _stopped(pair: PartitionPair, stop: Stop) -> PartitionStopped:
    source = pair.source
    return PartitionStopped(
        topic=source.topic,
        topic_id=source.topic_id,
        partition=source.partition,
        cause=str(stop.cause),
        message=stop.message,
        next=advice(stop.cause),
    )


# Loss cause ---------------------------------------------------------------------------------------
# Why source records were deleted before they could be copied, as far as that can be proved.


_UNLIMITED = "-1"


def loss_cause(configuration: Mapping[str, str]) -> SyncCause:
    """`deleted_records` where the topic's own settings rule retention out, else `retention`.

    `configuration`: what is set on the source topic itself; a broker's defaults prove nothing here.
    """
    if "delete" not in configuration.get("cleanup.policy", "delete"):
        return SyncCause.DELETED_RECORDS
    is_unlimited = all(configuration.get(name) == _UNLIMITED for name in ("retention.ms", "retention.bytes"))
    return SyncCause.DELETED_RECORDS if is_unlimited else SyncCause.RETENTION
