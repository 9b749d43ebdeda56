"""What a driver does about a partition that a task could not continue, by the flow's policies.

Records that were deleted are facts before anything else happens: lost (L6) or superseded. Then the partition
resumes or stops, as the flow says. Everything that a policy does not cover stops.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ledger.config.flow import FlowConfig, Policy, TargetMode
from ledger.domain.cluster_identity import FlowProducer
from ledger.domain.facts import OffsetSync, PartitionPair, SyncCause
from ledger.domain.offsets.position import Position
from ledger.domain.offsets.supersession import (
    RecordedSync,
    by_source_incarnation,
    common_end,
    holding,
    restart_after_target_truncation,
    sequence_at,
)
from ledger.mirror.partitions.ends_of_incarnation import ends_of_incarnation
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.partitions.target_history import TargetHistory
from ledger.mirror.task.assignments import Divergence, PartitionResult, Stop, StopCause
from ledger.ports.clusters import ClusterAdmin

RecordedRows = Callable[[PartitionState], Sequence[RecordedSync]]
"""All recorded rows of a partition, those of other incarnations of its source topic among them.

Read back from the ledger, so slow and only asked for in trouble.
"""

LossJudge = Callable[[PartitionState], SyncCause]


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
class _TruncatedTarget:
    """A target log that ends at `end` now, where the flow's next record has `next_sequence`."""

    topic_id: str
    end: int
    next_sequence: int

    def restart(self, recorded: Sequence[RecordedSync]) -> Position | None:
        """Where the copy of one incarnation of the source continues; None when nothing of it was lost."""
        there = [sync for sync in holding(recorded) if sync.target.topic_id == self.topic_id]
        return restart_after_target_truncation(there, self.end, next_sequence=self.next_sequence)

    def lost(self, recorded: Sequence[RecordedSync]) -> OffsetSync | None:
        """The fact that what an earlier incarnation of the source had beyond the end is not there any more."""
        restart = self.restart(recorded)
        if restart is None:
            return None
        last = holding(recorded)[-1]
        position = Position(source_offset=last.source_end, target_offset=last.target_end, next_sequence=0)
        state = PartitionState(PartitionPair(last.source, last.target), position)
        return state.supersede(restart, SyncCause.TARGET_TRUNCATED)


@dataclass(frozen=True, slots=True)
class StopPolicies:
    """The flow's policies, with what they need to know; `recorded` is complete when a outcome is asked for."""

    flow: FlowConfig
    source: ClusterAdmin
    target: ClusterAdmin
    producer: FlowProducer
    recorded: RecordedRows
    judge_loss: LossJudge

    def to(self, state: PartitionState, result: PartitionResult, stop: Stop) -> PolicyOutcome:
        """React to a stop that a task came back with; moves its state."""
        match stop.cause:
            case StopCause.SOURCE_OUT_OF_RANGE:
                return self._source_out_of_range(state, stop)
            case StopCause.SOURCE_TRUNCATED if result.divergence is not None:
                return self._source_truncated(state, result.divergence, stop.message)
            case StopCause.TARGET_OUT_OF_RANGE:
                return self._target_out_of_range(state, result.target_lost_from)
            case StopCause.SEQUENCE_REFUSED:
                return self._sequence_refused(state, stop)
            case _:
                return PolicyOutcome(stop=stop)

    def _source_out_of_range(self, state: PartitionState, stop: Stop) -> PolicyOutcome:
        ends = ends_of_incarnation(self.source, state.pair.source)
        if ends is None:
            return TRY_AGAIN
        copied_end = state.position.source_offset
        if ends.log_start > copied_end:
            return self._lost(state, ends.log_start)
        if ends.high_watermark < copied_end:
            message = (
                f"the source ends at {ends.high_watermark}, this flow had copied up to {copied_end}: "
                "the source lost records"
            )
            return self._source_truncated(state, Divergence(None, ends.high_watermark), message)
        return PolicyOutcome(
            stop=Stop(
                StopCause.SOURCE_TRUNCATED,
                f"{stop.message}; it holds other records there than those that were copied (its leader epochs went "
                "back), from an unknown offset",
            )
        )

    def _lost(self, state: PartitionState, log_start: int) -> PolicyOutcome:
        copied_end = state.position.source_offset
        message = f"source offsets {copied_end} to {log_start} were deleted before they were copied"
        fact = state.lose(log_start, self.judge_loss(state))
        return self._by_policy(self.flow.on_loss, (fact,), Stop(StopCause.LOST, message))

    def _source_truncated(self, state: PartitionState, divergence: Divergence, message: str) -> PolicyOutcome:
        recorded = by_source_incarnation(self.recorded(state)).get(state.pair.source.topic_id, [])
        common = common_end(recorded, epoch=divergence.epoch, end=divergence.end)
        at = state.position
        restart = replace(
            at,
            source_offset=min(common.source_end, at.source_offset),
            leader_epoch=common.leader_epoch,
        )
        message = f"{message}; source offsets {restart.source_offset} to {at.source_offset} are superseded"
        fact = state.supersede(restart, SyncCause.SOURCE_TRUNCATED)
        stop = Stop(StopCause.SOURCE_TRUNCATED, message)
        return self._by_policy(self.flow.on_source_truncated, (fact,), stop)

    def _target_out_of_range(self, state: PartitionState, lost_from: int | None) -> PolicyOutcome:
        ends = ends_of_incarnation(self.target, state.pair.target)
        if ends is None:
            return TRY_AGAIN
        if ends.log_start > state.position.target_offset:
            return self._expired(state, ends.log_start)
        recorded = self.recorded(state)
        history = TargetHistory(self.target, state.pair.target, self.producer, tuple(recorded))
        known_end = min(state.position.target_offset, ends.high_watermark)
        held_end = history.held_end(
            known_end if lost_from is None else min(lost_from, known_end), log_start=ends.log_start
        )
        if held_end == state.position.target_offset:
            return TRY_AGAIN
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
        state.target_log_start = log_start
        state.remembered_sequence = self.target.next_sequence(state.pair.target, self.producer.current)
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
        log = _TruncatedTarget(target_id, kept_end, expected if sequence is None else sequence)
        incarnations = by_source_incarnation(recorded)
        restart = log.restart(incarnations.pop(state.pair.source.topic_id, ())) or replace(
            state.position, target_offset=kept_end, next_sequence=log.next_sequence
        )
        lost = [fact for rows in incarnations.values() if (fact := log.lost(rows)) is not None]
        message = (
            f"the target went back to {kept_end}, this flow had written up to {state.position.target_offset}: the "
            f"target lost records; source offsets {restart.source_offset} to {state.position.source_offset} are "
            "superseded"
        )
        for former in lost:
            message += (
                f"; what it held of source offsets {former.source_start} to {former.source_end} of topic id "
                f"{former.source.topic_id}, which was deleted since, is lost"
            )
        fact = state.supersede(restart, SyncCause.TARGET_TRUNCATED)
        stop = Stop(StopCause.TARGET_TRUNCATED, message)
        return self._by_policy(self.flow.on_target_truncated, (fact, *lost), stop)

    def _by_policy(self, policy: Policy, facts: tuple[OffsetSync, ...], stop: Stop) -> PolicyOutcome:
        if policy is Policy.CONTINUE:
            return PolicyOutcome(facts, notice=f"{stop.message}; continuing")
        return PolicyOutcome(facts, stop)
