"""Deletes keys at a flow's target that its source deleted unseen: claims the flow, compares, writes, records, releases.

A mirror that reads a compacted topic later than its tombstones last may never see them. The keys that remain at
the target are those without any record at the source, in what the flow has copied or skipped: it needs to
stand at both ends, so that all the source's records are compared and the tombstones come behind all copies.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from ledger.adopt.reading import BothSides, LogRecord, both_sides
from ledger.clock import Clock
from ledger.config.values import FlowConfig, TargetMode
from ledger.context import Context, driver_operations, require_stopped
from ledger.errors import ClusterUnavailableError, PreconditionError, RefusedPartitionError, UsageError
from ledger.facts.findings import Finding, FindingName, Findings
from ledger.facts.operations import KeysResynced
from ledger.facts.syncs import FlowPosition, OffsetSync, PartitionPair, Position, SyncCause, TopicPartition
from ledger.kafka.batches import Record, encode, patch_for_target
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds
from ledger.kafka.copying import Network, answer_to
from ledger.kafka.record_fields import key_state, tombstone
from ledger.kafka.requests import TOPIC_UNKNOWN, TRANSIENT, ErrorCode, Produced, ProduceItem, describe
from ledger.mirror.assignment import Assignment
from ledger.mirror.driver import ClaimedFlow, claimed_beside_no_driver
from ledger.mirror.flow_topics import flow_topics
from ledger.mirror.sync_builder import SyncBuilder
from ledger.store.session import ClaimedOperations

# Tombstones ---------------------------------------------------------------------------------------
# Writes tombstones to a target partition as records of the flow: one batch at a time, each acknowledged
# (acks=all).
#
# An answer that did not come is asked for again with the same batch: its sequence makes the second one no
# second write. What is acknowledged is returned as offset syncs of kind `unpaired`, also when a later batch
# fails. When the process dies between an acknowledgement and the record of it, the flow's next run meets
# records of its own that it cannot pair: the partition stops with `tail_mismatch` (or they are recorded as
# `lost_source`, where a loss before them explains them), and `accept-foreign` records them.


_BATCH_BYTES = 64 * 1024
_BATCH_RECORDS = 500
_UNCOMPRESSED = 0
_TIMEOUT_MS = 30_000
_GIVE_UP_AFTER_S = 60.0
_PAUSE_S = 0.2
_ASKED_AGAIN = TRANSIENT | TOPIC_UNKNOWN


@dataclass(frozen=True, slots=True)
class Written:
    """What the target acknowledged, and why it is not everything (None: it is)."""

    syncs: tuple[OffsetSync, ...]
    failure: str | None


def write_tombstones(
    keys: Sequence[bytes], assignment: Assignment, network: Network, clock: Clock
) -> Written:
    """A tombstone for each key, in order, at the end of the assignment's target partition."""
    builder = SyncBuilder(assignment)
    failure = None
    try:
        for batch_keys in _batches(keys):
            _write(batch_keys, builder, assignment, network, clock)
    except (PreconditionError, ClusterUnavailableError) as error:
        failure = str(error)
    return Written(tuple(replace(sync, recovered=False) for sync in builder.syncs()), failure)


def _batches(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start, size = 0, 0
    for index, key in enumerate(keys):
        if index > start and (index - start == _BATCH_RECORDS or size + len(key) > _BATCH_BYTES):
            yield keys[start:index]
            start, size = index, 0
        size += len(key)
    if keys:
        yield keys[start:]


def _write(
    keys: Sequence[bytes], builder: SyncBuilder, assignment: Assignment, network: Network, clock: Clock
) -> None:
    sequence, expected = builder.position.next_sequence, builder.position.target_offset
    now_ms = clock.now_ms()
    batch = memoryview(
        encode(
            [Record(offset, now_ms, 0, tombstone(key)) for offset, key in enumerate(keys)],
            codec=_UNCOMPRESSED,
        )
    )
    patch_for_target(batch, _UNCOMPRESSED, producer_id=assignment.producer.current, sequence=sequence)
    base_offset = acknowledged(ProduceItem(assignment.target, batch), network, clock, what="tombstones")
    if base_offset < expected:
        raise PreconditionError(
            f"tombstones were expected at target offset {expected} and landed at {base_offset}: the target lost "
            "what was there; they were not recorded"
        )
    builder.unpaired(
        first_sequence=sequence, target_start=base_offset, count=len(keys), cause=SyncCause.RESYNC
    )
    if base_offset > expected:
        raise PreconditionError(
            f"tombstones were expected at target offset {expected} and landed at {base_offset}: somebody else "
            "writes to this exclusive target; they were recorded, and nothing was written after them"
        )


def acknowledged(item: ProduceItem, network: Network, clock: Clock, *, what: str) -> int:
    """The first target offset of a batch (of `what`, in words), once all replicas have it.

    Raises `PreconditionError` when the target refuses it or does not answer for a minute.
    """
    give_up = clock.monotonic() + _GIVE_UP_AFTER_S
    trouble = "its target partition has no leader"
    while clock.monotonic() < give_up:
        produced, failure = _ask(item, network)
        if produced is not None and produced.error == ErrorCode.NONE:
            return produced.base_offset
        if produced is not None and produced.error not in _ASKED_AGAIN:
            raise PreconditionError(
                f"the target refused {what} with error {describe(produced.error)}"
                f"{f' ({produced.message})' if produced.message else ''}; no more were written"
            )
        trouble = describe(produced.error) if produced is not None else failure or trouble
        network.poll(_PAUSE_S)
        network.target.refresh([item.partition.topic])
    raise PreconditionError(
        f"the target did not acknowledge {what} within {_GIVE_UP_AFTER_S:.0f} s: {trouble}; whether they were "
        "written is not known, no more were"
    )


def _ask(item: ProduceItem, network: Network) -> tuple[Produced | None, str | None]:
    node = network.target.leader(item.partition)
    if node is None:
        return None, None
    completion = answer_to(network.target.produce(node, [item], timeout_ms=_TIMEOUT_MS), network)
    return (completion.produced[0] if completion.produced else None), completion.failure


# Comparison ---------------------------------------------------------------------------------------
# Which keys remain at a target although their source has no record of them any more.
#
# Memory: about 100 bytes for every key of the source and every key alive at the target (a digest of 16
# bytes in a set or a dictionary), and the bytes of those keys that are at the target alone. Values are
# never kept.


_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """Keys with any record at the source, keys alive at the target, and those that are there alone, in log order."""

    source_keys: int
    target_keys: int
    left_over: tuple[bytes, ...]


def compare_keys(source: Iterable[LogRecord], target: Iterable[LogRecord]) -> KeyComparison:
    """Read the source to its end, then the target.

    A key is alive when its last record has a value. A record whose value is null counts as one of the source:
    its copy is at the target. Records without a key, and those of aborted transactions, count nowhere.
    """
    readable = (key_state(record.content).key for record in source if record.cause is None)
    known = {_digest(key) for key in readable if key is not None}
    alive: dict[bytes, bytes | None] = {}
    for record in target:
        state = key_state(record.content)
        if state.key is None or record.cause is not None:
            continue
        digest = _digest(state.key)
        alive.pop(digest, None)
        if not state.is_tombstone:
            alive[digest] = None if digest in known else state.key
    left_over = tuple(key for key in alive.values() if key is not None)
    return KeyComparison(len(known), len(alive), left_over)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


# Resyncing ----------------------------------------------------------------------------------------


log = logging.getLogger(__name__)

_FINDING = FindingName.TOMBSTONES_MAY_BE_MISSING
_PositionKey = tuple[str, int]
"""Source topic id and partition."""


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


def preview(flow: FlowConfig, pairs: Sequence[PartitionPair], ports: BothSides) -> list[PartitionKeys]:
    """Compare; nothing is claimed, written or recorded."""
    comparison = _Comparison(flow, ports)
    return [comparison.of(pair) for pair in pairs]


def _resynced(
    claimed: ClaimedFlow, pairs: Sequence[PartitionPair], ports: BothSides, operations: ClaimedOperations
) -> list[PartitionKeys]:
    """Compare, write tombstones, record. Each partition is recorded before the next one is compared."""
    flow = claimed.flow
    operations.begin(claimed.session)
    with claimed.session.shown_alive(flow.heartbeat_seconds):
        # Read after the claim: another driver may have copied until then.
        comparison = _Comparison(flow, ports)
        done = []
        for pair in pairs:
            keys = comparison.of(pair)
            if (compared := keys.compared) is not None:
                at = comparison.recorded(pair).for_producer(claimed.producer.current).position
                keys = _deleted(keys, compared, at, ports, claimed)
                resynced = KeysResynced(
                    topic=pair.source.topic,
                    partition=pair.source.partition,
                    source_keys=compared.source_keys,
                    target_keys=compared.target_keys,
                    tombstones=keys.written,
                )
                operations.record(resynced, flow=flow.name, reason=keys.refused)
            done.append(keys)
        _clear_findings(Findings(flow.name, [_FINDING], operations, ports.state), done)
    claimed.session.release()
    return done


class _Comparison:
    """Compares partition by partition; knows where the flow stands."""

    def __init__(self, flow: FlowConfig, ports: BothSides) -> None:
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
        found = self._positions.get(pair.source.key)
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
            "%(flow)s: comparing keys of %(topic)s partition %(partition)d",
            {"flow": self._flow.name, "topic": pair.source.topic, "partition": pair.source.partition},
        )
        # Records of any writer, filtered or not: what could have brought a key to the target.
        ports, link = self._ports, self._ports.network
        source_log = ports.log(link.source, pair.source, source.log_start, position.source_offset)
        target_log = ports.log(link.target, pair.target, target.log_start, position.target_offset)
        return compare_keys(source_log.read(source.log_start), target_log.read(target.log_start))


def _ends(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds:
    found = admin.ends([partition.place]).get(partition.place)
    if found is None:
        raise RefusedPartitionError(f"{partition.words} has no leader")
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


def _deleted(
    keys: PartitionKeys, compared: KeyComparison, at: Position, ports: BothSides, claimed: ClaimedFlow
) -> PartitionKeys:
    """Write the tombstones of one partition, and record where they lie."""
    pair = keys.pair
    assignment = Assignment(
        source=pair.source,
        target=pair.target,
        position=at,
        producer=claimed.producer,
        end_offset=at.source_offset,
        exclusive=True,
    )
    written = write_tombstones(compared.left_over, assignment, ports.network, ports.clock)
    syncs = written.syncs
    claimed.append(syncs)
    return replace(
        keys,
        written=sum(sync.records for sync in syncs),
        target=(syncs[0].target_start, syncs[-1].target_end) if syncs else None,
        refused=written.failure,
    )


def _clear_findings(findings: Findings, done: Sequence[PartitionKeys]) -> None:
    over = {keys.pair.source.place for keys in done if keys.refused is None}
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


# Key resync ---------------------------------------------------------------------------------------
# Keys of a target that its source has no record of.


def resync_keys(
    context: Context, flow_name: str, *, topic: str, partition: int | None, dry_run: bool = False
) -> list[PartitionKeys]:
    """Delete at a flow's target what its source has no record of; in a dry run nothing is written."""
    config, state, flow = context.config, context.state, context.config.enabled_flow(flow_name)
    require_exclusive(flow)
    require_stopped(flow, state)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    with both_sides(context, flow) as ports:
        operations = driver_operations()
        existing = flow_topics(config, flow, source, target, state, operations).existing()
        pairs = chosen(existing, topic, partition)
        require_compacted(source, topic)
        if dry_run:
            return preview(flow, pairs, ports)
        host = str(context.processes.own())
        claimed = claimed_beside_no_driver(flow, source, target, state, context.fact_log, host=host)
        return _resynced(claimed, pairs, ports, operations)
