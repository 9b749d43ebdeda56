"""Pairing what a dead driver had copied with its source, once that is there again, and copying nothing.

A failover records it without its source, as far as the target tells ("Settled without the source", PROTOCOL.md). A flow
that continues pairs it before it copies; where its target is promoted it does not continue, and what the source has
alone cannot be distinguished from what was copied.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from ledger.changeover.settling import claimed_again, settling_claim_row
from ledger.clock import SystemClock
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import PreconditionError
from ledger.facts.identity import FlowProducer
from ledger.facts.roles import writer_of
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, PartitionPair, SyncCause, TopicPartition
from ledger.facts.tables import OFFSET_SYNCS
from ledger.kafka.cluster import live_cluster
from ledger.kafka.network import KafkaNetwork
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult
from ledger.mirror.progress import LoopPrevention
from ledger.mirror.starts import Settlements
from ledger.mirror.states import PartitionState
from ledger.mirror.task import CopyTask
from ledger.store.producers import KeptMirrorProducers, no_mirror_producers
from ledger.words import counted, some_of

_REQUEST_TIMEOUT_S = 30.0
_READ_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where a partition stood when its driver died, and `restart`: what says that it stands there again, None: that is
    where it stands."""

    assignment: Assignment
    restart: OffsetSync | None


def pair_tails(
    context: Context, flow: FlowConfig, pairs: Sequence[PartitionPair], say: Callable[[str], None]
) -> None:
    """Record what the target holds of the flow behind its record, with its source offsets; nothing is written there.

    Twice is as once. Raises `PreconditionError` while a driver of the flow may be at work and where a tail cannot be
    paired, `ClusterUnavailableError` where a cluster does not answer; then nothing of a tail is recorded.
    """
    state = context.state
    require_stopped(flow, state)
    last = state.last_claim(writer_of(flow.name))
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    row = settling_claim_row(flow, live_cluster(source), target, state, host=str(context.processes.own()))
    with claimed_again(
        flow, context.fact_log, state, row, after=None if last is None else last.epoch
    ) as session:
        producer = state.identities().producers(str(row["target_cluster_id"]))[flow.name]
        tails = _tails(context, flow, producer, pairs)
        results = _paired(context, flow, source.cluster_id(), tails)
        _require_paired(flow, results)
        syncs = [
            sync
            for tail, result in zip(tails, results, strict=True)
            for sync in ([tail.restart] if tail.restart is not None else []) + list(result.syncs)
        ]
        if syncs:
            identity = FlowIdentity(flow.name, flow.source, flow.target, producer.current)
            session.append(OFFSET_SYNCS.name, [sync_row(identity, sync) for sync in syncs])
        session.release()
    records = sum(sync.records for result in results for sync in result.syncs)
    if records:
        say(f"{flow.name}: {counted(records, 'record')} that nobody had recorded paired with {flow.source}")


def _tails(
    context: Context, flow: FlowConfig, producer: FlowProducer, pairs: Sequence[PartitionPair]
) -> list[_Tail]:
    state = context.state
    settlements = Settlements(flow.name, state, producer.current)
    wanted = {(pair.source, pair.target) for pair in pairs}
    selection = LoopPrevention(flow, state, context.config.restored_by_other_flow(flow.name))
    found = []
    for known in state.positions(flow.name):
        pair = PartitionPair(
            TopicPartition(known.source_topic, known.source_topic_id, known.partition),
            TopicPartition(known.target_topic, known.target_topic_id, known.partition),
        )
        if (pair.source, pair.target) not in wanted:
            continue
        at = PartitionState(pair, known.for_producer(producer.current).position)
        stood = settlements.before(pair, at.position)
        restart = None
        if stood is not None:
            at.position = stood
            restart = at.supersede(stood, SyncCause.SETTLED)
            at.position = stood
        assignment = Assignment(
            source=pair.source,
            target=pair.target,
            position=at.position,
            producer=producer,
            end_offset=None,
            exclusive=False,  # applications have written behind it since
            is_pairing=True,
        )
        [assignment] = selection.applied_to([assignment])
        found.append(_Tail(assignment, restart))
    return found


def _paired(
    context: Context, flow: FlowConfig, source_id: str, tails: Sequence[_Tail]
) -> list[PartitionResult]:
    if not tails:
        return []
    clusters = context.config.cluster(flow.source), context.config.cluster(flow.target)
    writers = (
        no_mirror_producers if flow.relay else KeptMirrorProducers(context.config.ledger.path, source_id)
    )()
    with closing(KafkaNetwork(*clusters, request_timeout_s=_REQUEST_TIMEOUT_S)) as network:
        task = CopyTask([tail.assignment for tail in tails], network, writers, SystemClock(), CopyLimits())
        results = task.run(seconds=_READ_WITHIN_S)
    by_partition = {result.assignment.source: result for result in results}
    return [by_partition[tail.assignment.source] for tail in tails]


def _require_paired(flow: FlowConfig, results: Sequence[PartitionResult]) -> None:
    left = {
        f"{result.assignment.target.topic} partition {result.assignment.target.partition}": reason
        for result in results
        if (reason := result.stop.message if result.stop is not None else result.trouble) is not None
    }
    if left:
        raise PreconditionError(
            f"what {flow.name} had copied last to {some_of(list(left), 'partition')} of {flow.target} cannot be paired "
            f"with {flow.source}: {next(iter(left.values()))}; nothing was recorded"
        )
