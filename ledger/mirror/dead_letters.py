"""Dead letters: records that the target refuses are put into a topic of their own there, and their flow goes past them.

An internal flow does that beside it, in the same driver: it has the name of that with `.dead-letters` behind it. It is
a flow as any: a claim, a producer id and a map of its own, tasks that read the end of the target before they write. So
a record that was put there by a driver that died is found, and none is there twice. Each topic has one of its own, with
as many partitions as its source; a record keeps key, value, headers and time, and has headers that say where it is
from. In the map of the flow itself it is a gap, which is recorded only once the record is at the target.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.config.values import FlowConfig, TargetMode
from ledger.errors import ClusterUnavailableError, PreconditionError, RefusedSettingError
from ledger.facts.identity import FlowProducer
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.state import LedgerState
from ledger.facts.syncs import GapCause, OffsetSync, PartitionPair, Position, SyncCause, TopicPartition
from ledger.facts.tables import OFFSET_SYNCS
from ledger.kafka.cluster import ClusterAdmin
from ledger.mirror.assignment import Assignment, PartitionResult, RefusedRecord, Stop, StopCause
from ledger.mirror.continuing import RoundRunner
from ledger.mirror.states import FlowProgress, PartitionState
from ledger.store.session import WriterSession
from ledger.topics.following import REQUIRED_AT_TARGET, is_fence
from ledger.topics.naming import DEAD_LETTERS, TOPIC_PLACE

log = logging.getLogger(__name__)

_LIMIT = "max.message.bytes"
_KEPT = {
    **REQUIRED_AT_TARGET,
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    _LIMIT: str(100 * 1024 * 1024),  # as large as a request may be, by default
}
"""Records keep their times, and would expire at once."""
_ROUND_S = 10.0


def dead_letter_flow(flow: FlowConfig) -> FlowConfig:
    """The internal flow beside one that has a dead letter topic."""
    return flow.model_copy(
        update={
            "name": f"{flow.name}{DEAD_LETTERS}",
            "target_mode": TargetMode.SHARED,
            "opposite": None,
            "sync_groups": False,
            "emit_checkpoints": False,
            "emit_heartbeats": False,
            "dead_letters": None,
        }
    )


@dataclass(slots=True)
class DeadLetters:
    """`flow` is the internal one, claimed by `session`; `pattern`: names of topics, with a place for the target's."""

    flow: FlowConfig
    pattern: str
    target: ClusterAdmin
    state: LedgerState
    runner: RoundRunner
    session: WriterSession
    producer: FlowProducer

    def put(self, refused: PartitionResult, record: RefusedRecord, *, partitions: int) -> Stop | None:
        """Put the record aside at which a partition stopped, and record that. Why it could not be, else None.

        `partitions`: of the source topic. Raises `ClusterUnavailableError` where that is to be tried again.
        """
        source, target = refused.assignment.source, refused.assignment.target
        if self._is_fenced(target.topic):
            return _stop(refused, f"max.message.bytes of {target.topic} is a fence: nothing is put aside")
        try:
            at_target = self._at_target(target.topic, source.partition, partitions)
        except PreconditionError as error:
            return _stop(refused, f"its dead letter topic cannot be made: {error}")
        pair = PartitionPair(source, at_target)
        progress = FlowProgress(self.state.positions(self.flow.name), self.producer)
        known = progress.recorded(pair)
        if known is not None and known.position.source_offset > record.offset:
            return None  # a driver did, and died before the flow's own row
        if known is not None and known.target_topic_id != at_target.topic_id:
            return _stop(refused, f"{at_target.topic} was created again since the last dead letter")
        begun, facts = self._begun(progress, pair, record)
        self._append(facts)
        [result] = self.runner.run([[self._assignment(refused, begun, record)]], seconds=_ROUND_S)
        self._append(result.syncs)
        if result.stop is not None:
            return _stop(refused, f"{at_target.topic} does not take it either: {result.stop.message}")
        if result.position.source_offset <= record.offset:
            raise ClusterUnavailableError(
                f"a record could not be put into {at_target.topic}: {result.trouble or 'no answer in time'}"
            )
        return None

    def _is_fenced(self, topic: str) -> bool:
        settings = self.target.topic_settings([topic]).read.get(topic)
        return settings is not None and is_fence(_LIMIT, settings.effective.get(_LIMIT))

    def _at_target(self, topic: str, partition: int, partitions: int) -> TopicPartition:
        """Where the record goes; the topic is made, or given partitions, where it lacks them."""
        name = self.pattern.replace(TOPIC_PLACE, topic)
        there = self.target.topics().get(name)
        if there is None:
            self._create(name, partitions, replicas=self.target.topics()[topic].replication_factor)
        elif there.partitions < partitions:
            self.target.add_partitions(name, total=partitions)
        found = self.target.topics()[name]
        return TopicPartition(name, found.topic_id, partition)

    def _create(self, name: str, partitions: int, *, replicas: int) -> None:
        log.info("creating topic %(topic)s at the target for dead letters", {"topic": name})

        def create(configuration: Mapping[str, str]) -> None:
            self.target.create_topic(
                name, partitions=partitions, replication_factor=replicas, configuration=configuration
            )

        try:
            create(_KEPT)
        except RefusedSettingError as error:
            log.warning(
                "%(topic)s is made with the target's own settings: %(cause)s", {"topic": name, "cause": error}
            )
            create({})

    def _begun(
        self, progress: FlowProgress, pair: PartitionPair, record: RefusedRecord
    ) -> tuple[PartitionState, list[OffsetSync]]:
        """Where the internal flow stands, in front of the record, and what is to be recorded of that."""
        known = progress.recorded(pair)
        if known is not None:
            state = PartitionState(pair, known.position)
            is_there = known.position.source_offset == record.offset
            return state, [] if is_there else [state.leave_out(record.offset, GapCause.FILTERED)]
        before = progress.recorded_at_target(pair)
        if before is not None:
            position = replace(before.position, source_offset=record.offset, leader_epoch=None)
        else:
            at = pair.target.place
            end = self.target.ends([at])[at].high_watermark
            position = Position(source_offset=record.offset, target_offset=end, next_sequence=0)
        state = PartitionState(pair, position)
        return state, [state.started(SyncCause.DEAD_LETTER)]

    def _assignment(
        self, refused: PartitionResult, begun: PartitionState, record: RefusedRecord
    ) -> Assignment:
        """Which records are copied at all is as for the flow."""
        of_flow = refused.assignment
        return Assignment(
            source=begun.pair.source,
            target=begun.pair.target,
            position=begun.position,
            producer=self.producer,
            end_offset=record.offset + 1,
            exclusive=False,
            returning=of_flow.returning,
            record_filter=of_flow.record_filter,
            adopted=of_flow.adopted,
            kept_local=of_flow.kept_local,
            mistakable=of_flow.mistakable,
            copies_tail_again=True,
            dead_letter=record.error,
        )

    def _append(self, facts: Sequence[OffsetSync]) -> None:
        if facts:
            identity = FlowIdentity(self.flow.name, self.flow.source, self.flow.target, self.producer.current)
            self.session.append(OFFSET_SYNCS.name, [sync_row(identity, fact) for fact in facts])


def _stop(refused: PartitionResult, why: str) -> Stop:
    assert refused.stop is not None
    return Stop(StopCause.REFUSED, f"{refused.stop.message}; {why}")
