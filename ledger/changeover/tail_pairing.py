"""Pairing what a dead driver had copied with its source, once that is there again, and copying nothing.

A failover records it without its source, as far as the target tells ("Settled without the source", PROTOCOL.md). A flow
that continues pairs it before it copies; where its target is promoted it does not continue, and what the source has
alone cannot be distinguished from what was copied.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from ledger.changeover.bounded_copy import PARTITIONS_AT_ONCE, tasks_here
from ledger.changeover.settling import claimed_again, settling_claim_row
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import PreconditionError
from ledger.facts.identity import FlowProducer
from ledger.facts.roles import writer_of
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, PartitionPair, SyncCause, TopicPartition
from ledger.facts.tables import OFFSET_SYNCS
from ledger.kafka.cluster import ClusterAdmin, live_cluster
from ledger.kafka.topics import parts
from ledger.mirror.assignment import Assignment, PartitionResult
from ledger.mirror.progress import LoopPrevention
from ledger.mirror.starts import Settlements
from ledger.mirror.states import PartitionState, first_record
from ledger.store.state import DeltaLedgerState
from ledger.words import counted, some_of

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

    Twice is as once. Raises `PreconditionError` while a driver of the flow may be at work, where a tail cannot be
    paired, and where others have written in the middle of one; `ClusterUnavailableError` where a cluster does not
    answer. Then nothing of a tail is recorded.
    """
    state = context.state
    require_stopped(flow, state)
    last = state.last_claim(writer_of(flow.name))
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    row = settling_claim_row(flow, live_cluster(source), target, state, host=str(context.processes.own()))
    after = None if last is None else last.epoch
    claim = claimed_again(flow, context.fact_log, state, row, after=after)
    with claim.held(flow.heartbeat_seconds) as session:
        producer = state.identities().producers(str(row["target_cluster_id"]))[flow.name]
        tails = _tails(context, flow, producer, pairs)
        results = _paired(context, flow, source.cluster_id(), tails)
        _require_paired(flow, results)
        behind_others = state.behind_others(flow.name)
        _require_own_alone(
            context, flow, [one for one in results if one.assignment.target.key not in behind_others]
        )
        identity = FlowIdentity(flow.name, flow.source, flow.target, producer.current)
        # What supersedes is a round of its own: it voids what its own round says behind it.
        for syncs in (
            [tail.restart for tail in tails if tail.restart is not None],
            [sync for result in results for sync in result.syncs],
        ):
            if syncs:
                session.append(OFFSET_SYNCS.name, [sync_row(identity, sync) for sync in syncs])
    records = sum(sync.records for result in results for sync in result.syncs)
    if records:
        say(f"{flow.name}: {counted(records, 'record')} that nobody had recorded paired with {flow.source}")


def _tails(
    context: Context, flow: FlowConfig, producer: FlowProducer, pairs: Sequence[PartitionPair]
) -> list[_Tail]:
    """Of partitions that may have one: not where a log has lost what lay there, and nothing of the flow came since."""
    state, source, target = context.state, context.cluster(flow.source), context.cluster(flow.target)
    settlements = Settlements(flow.name, state, producer.current)
    wanted = frozenset(pairs)
    selection = LoopPrevention(flow, state, context.config.restored_by_other_flow(flow.name))
    at_source = source.ends([pair.source.place for pair in pairs])
    at_target = target.ends([pair.target.place for pair in pairs])
    cleaned = _cleaned(target, {pair.target.topic for pair in pairs})
    behind_others = state.behind_others(flow.name)
    found = []
    for known in state.positions(flow.name):
        pair = known.pair
        if pair not in wanted:
            continue
        here, there = at_source.get(pair.source.place), at_target.get(pair.target.place)
        if here is None or there is None:
            raise PreconditionError(
                f"{pair.source.words} has no leader at {flow.source} or "
                f"{flow.target}; nothing was recorded. Try again when it has one"
            )
        at = PartitionState(pair, known.for_producer(producer.current).position)
        stood = settlements.before(pair, at.position)
        restart = None
        if stood is not None:
            at.position = stood
            restart = at.supersede(stood, SyncCause.SETTLED)
            at.position = stood
        below = there.high_watermark
        if pair.target.key not in behind_others:
            below = _written_below(state, flow, pair, below)
        is_lost = here.log_start > at.position.source_offset or there.log_start > at.position.target_offset
        start = max(there.log_start, at.position.target_offset)
        if is_lost and first_own(target, pair.target, start, below, producer) is None and restart is None:
            continue
        assignment = Assignment(
            source=pair.source,
            target=pair.target,
            position=at.position,
            producer=producer,
            end_offset=None,
            exclusive=False,  # applications have written behind it since
            pairs_below=below,
            is_target_cleaned=pair.target.topic in cleaned,
        )
        [assignment] = selection.applied_to([assignment])
        # Where extras were copied it had been decided before which of them stay.
        if pair.target.key not in behind_others:
            assignment = replace(assignment, kept_local=())
        found.append(_Tail(assignment, restart))
    return found


def _written_below(state: DeltaLedgerState, flow: FlowConfig, pair: PartitionPair, end: int) -> int:
    """Where the target ended when applications came there: what the flow wrote lies below that."""
    cuts = [
        at.high_watermark
        for at in state.cut_targets(flow.name, pair.target.topic, pair.target.partition)
        if at.is_live and at.topic_id == pair.target.topic_id and at.high_watermark is not None
    ]
    return min(max(cuts), end) if cuts else end


def first_own(
    target: ClusterAdmin, at: TopicPartition, start: int, end: int, producer: FlowProducer
) -> int | None:
    """The first offset of a range with a record of the flow; None: there is none."""
    found = first_record(target, at, start, end, is_decided=lambda writer: not producer.wrote(writer))
    return None if found is None else found[0]


def _cleaned(target: ClusterAdmin, topics: Collection[str]) -> frozenset[str]:
    own = target.configurations(sorted(topics))
    return frozenset(name for name in topics if "compact" in own.get(name, {}).get("cleanup.policy", ""))


def _paired(
    context: Context, flow: FlowConfig, source_id: str, tails: Sequence[_Tail]
) -> list[PartitionResult]:
    results: list[PartitionResult] = []
    with tasks_here(context, flow, source_id) as carry_out:
        for some in parts([tail.assignment for tail in tails], PARTITIONS_AT_ONCE):
            results += carry_out(some, _READ_WITHIN_S)
    return results


def _require_paired(flow: FlowConfig, results: Sequence[PartitionResult]) -> None:
    left = {result.assignment.target.words: _why_not(result) for result in results if not result.has_paired}
    if left:
        raise PreconditionError(
            f"what {flow.name} had copied last to {some_of(list(left), 'partition')} of {flow.target} cannot be paired "
            f"with {flow.source}: {next(iter(left.values()))}; nothing was recorded"
        )


def _why_not(result: PartitionResult) -> str:
    if result.stop is not None:
        return result.stop.message
    return result.trouble or f"it was not read to its end within {_READ_WITHIN_S:.0f} s"


def _require_own_alone(context: Context, flow: FlowConfig, results: Sequence[PartitionResult]) -> None:
    """What others have written before the flow's last record lies in front of where the way back would begin."""
    target = context.cluster(flow.target)
    mirrors = context.state.identities().mirror_ids(target.cluster_id())
    for result in results:
        at = result.assignment
        start, end = at.position.target_offset, result.position.target_offset
        found = (
            first_record(target, at.target, start, end, is_decided=mirrors.__contains__)
            if result.syncs
            else None
        )
        if found is not None:
            raise PreconditionError(
                f"{at.target.words} of {flow.target} holds what others wrote, from offset {found[0]} on, in front "
                f"of what {flow.name} copied last: the way back would not bring it; nothing was recorded. Leave "
                "the topic out (--topic names the others)"
            )
