"""Deletes keys at a flow's target that its source deleted unseen: claims the flow, compares, writes, records, releases.

A mirror that reads a compacted topic later than its tombstones last may never see them. The keys that remain at
the target are those without any record at the source, in what the flow has copied or skipped: it needs to
stand at both ends, so that all the source's records are compared and the tombstones come behind all copies.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.config.flow import FlowConfig, TargetMode
from ledger.domain.facts import OffsetSync, PartitionPair, TopicPartition
from ledger.domain.offsets.position import Position
from ledger.domain.operations.partition_events import KeysResynced
from ledger.domain.writer_roles import writer_of
from ledger.errors import PreconditionError, UsageError
from ledger.mirror.driver.flow_driver import claim_row
from ledger.mirror.findings.finding_log import Finding, FindingName, Findings
from ledger.mirror.task.assignments import Assignment
from ledger.operations.adoption.pairing_result import RefusedPartitionError
from ledger.operations.adoption.reading import PartitionLog
from ledger.operations.adoption.records import LogRecord
from ledger.operations.key_resync.comparison import KeyComparison, compare_keys
from ledger.operations.key_resync.tombstones import Written, write_tombstones
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, PartitionEnds
from ledger.ports.ledger import FactLog, FlowPosition, LedgerState
from ledger.ports.network import ClusterLink, Network
from ledger.recording.operation_log import ClaimedOperations
from ledger.recording.sync_rows import FlowIdentity, sync_row
from ledger.recording.writer_session import FLOW_TABLES, WriterSession
from ledger.schema import OFFSET_SYNCS

log = logging.getLogger(__name__)

_FINDING = FindingName.TOMBSTONES_MAY_BE_MISSING
_PositionKey = tuple[str, int]
"""Source topic id and partition."""


@dataclass(frozen=True, slots=True)
class ResyncPorts:
    """Everything that the command talks to."""

    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    operations: ClaimedOperations
    network: Network
    clock: Clock


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """One partition's line of the result; `refused`: why not all of it was done (None: it was).

    `target`: offsets of the tombstones at the target, None when none was written.
    """

    pair: PartitionPair
    compared: KeyComparison | None = None
    written: int = 0
    target: tuple[int, int] | None = None
    refused: str | None = None


def chosen(pairs: Sequence[PartitionPair], topic: str, partition: int | None) -> list[PartitionPair]:
    """Partitions of the topic, or the one asked for. Raises `UsageError` when there is none."""
    of_topic = [pair for pair in pairs if pair.source.topic == topic]
    if not of_topic:
        raise UsageError(
            f"{topic}: not a topic that the flow selects and that exists on both sides; no keys were compared"
        )
    found = [pair for pair in of_topic if partition is None or pair.source.partition == partition]
    if not found:
        raise UsageError(
            f"{topic} has partitions 0 to {len(of_topic) - 1}, not {partition}; no keys were compared"
        )
    return found


def require_exclusive(flow: FlowConfig) -> None:
    """In a shared target other writers' keys would be deleted: raises `PreconditionError`."""
    if flow.target_mode is TargetMode.SHARED:
        raise PreconditionError(
            f'flow {flow.name} has target_mode = "shared": keys that others wrote to the target are not at the source '
            "and would be deleted; no keys were compared"
        )


def require_compacted(source: ClusterAdmin, topic: str) -> None:
    """Raises `PreconditionError` unless the source topic is compacted."""
    answer = source.topic_settings([topic])
    if topic in answer.refused:
        raise PreconditionError(
            f"the settings of {topic} may not be described: {answer.refused[topic]}; no keys were compared"
        )
    policy = answer.read[topic].effective.get("cleanup.policy", "") if topic in answer.read else "unknown"
    if "compact" not in policy:
        raise PreconditionError(
            f"{topic} has cleanup.policy {policy} at the source, only compacted topics have keys that are deleted by "
            "tombstones; no keys were compared"
        )


def preview(flow: FlowConfig, pairs: Sequence[PartitionPair], ports: ResyncPorts) -> list[PartitionKeys]:
    """Compare; nothing is claimed, written or recorded."""
    comparison = _Comparison(flow, ports)
    return [comparison.of(pair) for pair in pairs]


def resync(
    flow: FlowConfig,
    pairs: Sequence[PartitionPair],
    ports: ResyncPorts,
    *,
    fact_log: FactLog,
    host: str,
) -> list[PartitionKeys]:
    """Compare, write tombstones, record. Each partition is recorded before the next one is compared."""
    row = claim_row(flow, source=ports.source, target=ports.target, state=ports.state, host=host)
    session = WriterSession.claimed(fact_log, writer_of(flow.name), FLOW_TABLES, row)
    ports.operations.begin(session)
    log.debug("%s: writer epoch %d", flow.name, session.epoch)
    # Read after the claim: another driver may have copied until then.
    comparison = _Comparison(flow, ports)
    producer_id = ports.state.identities().producers(str(row["target_cluster_id"]))[flow.name].current
    deletion = _Deletion(flow, ports, session, producer_id)
    done = [deletion.of(comparison.of(pair), comparison) for pair in pairs]
    _clear_findings(flow, ports, done)
    session.release()
    return done


class _Comparison:
    """Compares partition by partition; knows where the flow stands."""

    def __init__(self, flow: FlowConfig, ports: ResyncPorts) -> None:
        self._flow = flow
        self._ports = ports
        self._directions = ports.state.requests_and_directions(flow.name)[1]
        self._positions: Mapping[_PositionKey, FlowPosition] = {
            (position.source_topic_id, position.partition): position
            for position in ports.state.positions(flow.name)
        }

    def recorded(self, pair: PartitionPair) -> FlowPosition:
        """Where the flow stands. Raises `RefusedPartitionError` when the ledger does not know."""
        flow, topic = self._flow, pair.target.topic
        promotion = self._directions.promotion(flow.source, flow.target, topic)
        if promotion is not None:
            raise RefusedPartitionError(
                f"{topic} of {flow.target} was promoted over {flow.source} {promotion}: applications write there"
            )
        found = self._positions.get((pair.source.topic_id, pair.source.partition))
        if found is None or found.target_topic_id != pair.target.topic_id:
            raise RefusedPartitionError(
                "the ledger has no position of the flow between the topics that exist now: run the flow first"
            )
        return found

    def of(self, pair: PartitionPair) -> PartitionKeys:
        try:
            return PartitionKeys(pair, self._compared(pair))
        except RefusedPartitionError as error:
            return PartitionKeys(pair, refused=str(error))

    def _compared(self, pair: PartitionPair) -> KeyComparison:
        position = self.recorded(pair).position
        source, target = _ends(self._ports.source, pair.source), _ends(self._ports.target, pair.target)
        _require_both_ends(position, source, target)
        log.info(
            "%s: comparing keys of %s partition %d", self._flow.name, pair.source.topic, pair.source.partition
        )
        network = self._ports.network
        return compare_keys(
            self._records(network.source, pair.source, source.log_start, position.source_offset),
            self._records(network.target, pair.target, target.log_start, position.target_offset),
        )

    def _records(
        self, link: ClusterLink, partition: TopicPartition, start: int, end: int
    ) -> Iterable[LogRecord]:
        """Records of any writer, filtered or not: what could have brought a key to the target."""
        link.refresh([partition.topic])
        network, clock = self._ports.network, self._ports.clock
        partition_log = PartitionLog(
            network, link, clock, partition, start=start, end=end, mirror_producer_ids=frozenset()
        )
        return partition_log.read(start)


def _ends(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds:
    key = (partition.topic, partition.partition)
    found = admin.ends([key]).get(key)
    if found is None:
        raise RefusedPartitionError(f"{partition.topic} partition {partition.partition} has no leader")
    return found


def _require_both_ends(position: Position, source: PartitionEnds, target: PartitionEnds) -> None:
    if position.source_offset != source.last_stable:
        raise RefusedPartitionError(
            f"the flow stands at source offset {position.source_offset}, the source ends at {source.last_stable}: "
            "run the flow until it has caught up"
        )
    if position.target_offset != target.high_watermark:
        raise RefusedPartitionError(
            f"the target ends at offset {target.high_watermark}, the flow's record of it at {position.target_offset}: "
            "run the flow until it has caught up"
        )


class _Deletion:
    """Writes and records the tombstones of one partition after the other."""

    def __init__(
        self, flow: FlowConfig, ports: ResyncPorts, session: WriterSession, producer_id: int
    ) -> None:
        self._flow = flow
        self._ports = ports
        self._session = session
        self._producer_id = producer_id

    def of(self, keys: PartitionKeys, comparison: _Comparison) -> PartitionKeys:
        if keys.compared is None:
            return keys
        assignment = self._assignment(
            keys.pair, comparison.recorded(keys.pair).for_producer(self._producer_id)
        )
        written = write_tombstones(
            keys.compared.left_over, assignment, self._ports.network, self._ports.clock
        )
        self._record_syncs(written.syncs)
        done = _done(keys.pair, keys.compared, written)
        self._record_operation(done, keys.compared)
        return done

    def _assignment(self, pair: PartitionPair, recorded: FlowPosition) -> Assignment:
        return Assignment(
            source=pair.source,
            target=pair.target,
            position=recorded.position,
            producer_id=self._producer_id,
            end_offset=recorded.position.source_offset,
            exclusive=True,
        )

    def _record_syncs(self, syncs: Sequence[OffsetSync]) -> None:
        if syncs:
            identity = FlowIdentity(self._flow.name, self._flow.source, self._flow.target, self._producer_id)
            self._session.append(OFFSET_SYNCS.name, [sync_row(identity, sync) for sync in syncs])

    def _record_operation(self, done: PartitionKeys, compared: KeyComparison) -> None:
        resynced = KeysResynced(
            topic=done.pair.source.topic,
            partition=done.pair.source.partition,
            source_keys=compared.source_keys,
            target_keys=compared.target_keys,
            tombstones=done.written,
        )
        self._ports.operations.record(resynced, flow=self._flow.name, reason=done.refused)


def _done(pair: PartitionPair, compared: KeyComparison, written: Written) -> PartitionKeys:
    syncs = written.syncs
    return PartitionKeys(
        pair,
        compared,
        written=sum(sync.records for sync in syncs),
        target=(syncs[0].target_start, syncs[-1].target_end) if syncs else None,
        refused=written.failure,
    )


def _clear_findings(flow: FlowConfig, ports: ResyncPorts, done: Sequence[PartitionKeys]) -> None:
    over = {(keys.pair.source.topic, keys.pair.source.partition) for keys in done if keys.refused is None}
    findings = Findings(flow.name, [_FINDING], ports.operations, ports.state)
    findings.report(
        Finding(name=_FINDING, topic=topic, partition=partition, message="")
        for _, topic, partition in findings.already_open()
        if (topic, partition) not in over
    )


def result_row(keys: PartitionKeys) -> dict[str, object]:
    """A line of the result table; null where nothing was compared or written."""
    compared = keys.compared
    first, end = keys.target or (None, None)
    return {
        "source_topic": keys.pair.source.topic,
        "partition": keys.pair.source.partition,
        "target_topic": keys.pair.target.topic,
        "source_keys": compared.source_keys if compared is not None else None,
        "target_keys": compared.target_keys if compared is not None else None,
        "left_over": len(compared.left_over) if compared is not None else None,
        "tombstones": keys.written,
        "target_first": first,
        "target_last": end - 1 if end is not None else None,
        "remarks": keys.refused,
    }
