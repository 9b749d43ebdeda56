"""Pairing what a dead driver had copied with its source, once that is there again, and copying nothing.

A failover records it without its source, as far as the target tells ("Settled without the source", PROTOCOL.md). A flow
that continues pairs it before it copies; where its target is promoted it does not continue, and what the source has
alone cannot be distinguished from what was copied.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from ledger.changeover.bounded_copy import PARTITIONS_AT_ONCE, CarryOut, tasks_here
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import PreconditionError
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import MAPPED, OffsetSync, PartitionPair, SyncCause, TopicPartition
from ledger.kafka.cluster import ClusterAdmin, live_cluster
from ledger.kafka.topics import parts
from ledger.mirror.assignment import Assignment, PartitionResult, StopCause
from ledger.mirror.driver import claim_row, claimed_behind
from ledger.mirror.progress import LoopPrevention
from ledger.mirror.starts import Settlements
from ledger.mirror.states import PartitionState, first_record
from ledger.mirror.stops import StopPolicies
from ledger.store.state import DeltaLedgerState
from ledger.words import counted, some_of

_READ_WITHIN_S = 30.0  # and again, as long as more of any partition is found out


@dataclass(slots=True)
class ReadTail:
    """What both sides tell of a partition that stood where its driver died; nothing of it is recorded.

    `rounds`: what is to be recorded, each by an append of its own: what supersedes voids what its own round says.
    `lost`: why the source lacks what the flow had copied, in words; None: it has all of it.
    """

    flow: FlowConfig
    assignment: Assignment
    state: PartitionState
    rounds: list[tuple[OffsetSync, ...]] = field(default_factory=list)
    lost: str | None = None

    @property
    def pair(self) -> PartitionPair:
        return self.state.pair

    @property
    def syncs(self) -> list[OffsetSync]:
        return [sync for found in self.rounds for sync in found]

    def add(self, syncs: Sequence[OffsetSync]) -> None:
        if syncs:
            self.rounds.append(tuple(syncs))

    def again(self) -> None:
        """From where it stands now."""
        self.assignment = replace(self.assignment, position=self.state.position)


def read_tails(context: Context, flow: FlowConfig, pairs: Sequence[PartitionPair]) -> list[ReadTail]:
    """What the target holds of the flow behind its record, beside the source, and what the source has lost of all that
    the flow had copied; nothing is written anywhere.

    Raises `PreconditionError` where a tail cannot be paired, and where others have written in the middle of one;
    `ClusterUnavailableError` where a cluster does not answer.
    """
    state, source, target = context.state, context.cluster(flow.source), context.cluster(flow.target)
    producer = state.identities().producers(target.cluster_id()).get(flow.name)
    if producer is None:
        return []
    tails = _tails(context, flow, producer, pairs)
    policies = StopPolicies(flow, source, target, producer, state)
    with tasks_here(context, flow, source.cluster_id()) as carry_out:
        for some in parts(tails, PARTITIONS_AT_ONCE):
            _read(flow, some, carry_out, policies)
    _require_own_alone(context, flow, tails)
    return [tail for tail in tails if tail.rounds]


def record_tails(
    context: Context, flow: FlowConfig, pairs: Sequence[PartitionPair], say: Callable[[str], None]
) -> None:
    """Record what `read_tails` finds, by a claim of its own. Twice is as once.

    Raises the same, and `PreconditionError` while a driver of the flow may be at work. Then nothing is recorded.
    """
    state = context.state
    after = require_stopped(flow, state)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    host = str(context.processes.own())
    row = claim_row(flow, source=live_cluster(source), target=target, state=state, host=host, is_kept=True)
    claimed = claimed_behind(flow, context.fact_log, state, row, after=after)
    with claimed.session.held(flow.heartbeat_seconds):
        tails = read_tails(context, flow, pairs)
        for syncs in zip_longest(*(tail.rounds for tail in tails), fillvalue=()):
            claimed.append([sync for found in syncs for sync in found])
    records = sum(sync.records for tail in tails for sync in tail.syncs if sync.kind in MAPPED)
    if records:
        say(f"{flow.name}: {counted(records, 'record')} that nobody had recorded paired with {flow.source}")


def _tails(
    context: Context, flow: FlowConfig, producer: FlowProducer, pairs: Sequence[PartitionPair]
) -> list[ReadTail]:
    """Of partitions that may have one: not where a log has lost what lay there, and nothing of the flow came since."""
    state, source, target = context.state, context.cluster(flow.source), context.cluster(flow.target)
    settlements = Settlements(flow.name, state, producer.current)
    wanted = frozenset(pairs)
    selection = LoopPrevention(flow, state, context.config.restored_by_other_flow(flow.name))
    at_source = source.ends([pair.source.place for pair in pairs])
    at_target = target.ends([pair.target.place for pair in pairs])
    cleaned = _cleaned(target, {pair.target.topic for pair in pairs})
    behind_others = state.behind_others(flow.name)
    written_below = _written_below(state, flow, pairs)
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
            below = min(written_below.get(pair.target, below), below)
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
        tail = ReadTail(flow, assignment, at)
        tail.add([] if restart is None else [restart])
        found.append(tail)
    for tail, assignment in zip(
        found, selection.applied_to([tail.assignment for tail in found]), strict=True
    ):
        # Where extras were copied it had been decided before which of them stay.
        is_decided = assignment.target.key in behind_others
        tail.assignment = assignment if is_decided else replace(assignment, kept_local=())
    return found


def _read(flow: FlowConfig, tails: Sequence[ReadTail], carry_out: CarryOut, policies: StopPolicies) -> None:
    """Until all is known of each: a source that has lost its end is compared with what had been copied before."""
    left = list(tails)
    refused: dict[str, str] = {}
    while left:
        results = carry_out([tail.assignment for tail in left], _READ_WITHIN_S)
        by_source = {result.assignment.source: result for result in results}
        has_moved = any(result.position != result.assignment.position for result in results)
        again = []
        for tail in left:
            result = by_source[tail.assignment.source]
            tail.add(result.syncs)
            tail.state.position, tail.state.tail = result.position, result.tail
            if result.has_paired:
                continue
            if result.stop is None and has_moved:
                tail.again()
                again.append(tail)
                continue
            if (fact := _lost_at_source(tail, result, policies)) is None:
                refused[tail.pair.target.words] = _why_not(result)
                continue
            tail.add([fact])
            tail.lost = None if result.stop is None else result.stop.message
            tail.again()
            again.append(tail)
        left = again
    if refused:
        raise PreconditionError(
            f"what {flow.name} had copied last to {some_of(list(refused), 'partition')} of {flow.target} cannot be "
            f"paired with {flow.source}: {next(iter(refused.values()))}; nothing was recorded"
        )


def _lost_at_source(tail: ReadTail, result: PartitionResult, policies: StopPolicies) -> OffsetSync | None:
    """What says that the source holds no more what had been copied behind some offset; None: it says no such thing."""
    state, stop = tail.state, result.stop
    if stop is None:
        return None
    if stop.cause in (StopCause.SOURCE_TRUNCATED, StopCause.SOURCE_OUT_OF_RANGE):
        facts = policies.to(state, result, stop).facts
        lost = [fact for fact in facts if fact.cause is SyncCause.SOURCE_TRUNCATED]
        return replace(lost[0], cause=SyncCause.RETURNING) if lost else None
    is_known = state.position.source_may_be_deleted  # then the same would come of it
    if stop.cause is not StopCause.TAIL_MISMATCH or is_known:
        return None
    return state.supersede(state.position, SyncCause.RETURNING)


def _written_below(
    state: DeltaLedgerState, flow: FlowConfig, pairs: Sequence[PartitionPair]
) -> dict[TopicPartition, int]:
    """Where targets ended when applications came there: what the flow wrote lies below that."""
    found: dict[TopicPartition, int] = {}
    for cuts in state.cut_targets(flow.name, {pair.target.topic for pair in pairs}).values():
        for at in cuts:
            if at.is_live and at.high_watermark is not None:
                place = TopicPartition(at.topic, at.topic_id, at.partition)
                found[place] = max(found.get(place, 0), at.high_watermark)
    return found


def first_own(
    target: ClusterAdmin, at: TopicPartition, start: int, end: int, producer: FlowProducer
) -> int | None:
    """The first offset of a range with a record of the flow; None: there is none."""
    found = first_record(target, at, start, end, is_decided=lambda writer: not producer.wrote(writer))
    return None if found is None else found[0]


def _cleaned(target: ClusterAdmin, topics: Collection[str]) -> frozenset[str]:
    own = target.configurations(sorted(topics))
    return frozenset(name for name in topics if "compact" in own.get(name, {}).get("cleanup.policy", ""))


def _why_not(result: PartitionResult) -> str:
    if result.stop is not None:
        return result.stop.message
    return result.trouble or f"nothing more of it could be found out for {_READ_WITHIN_S:.0f} s"


def _require_own_alone(context: Context, flow: FlowConfig, tails: Sequence[ReadTail]) -> None:
    """What others have written before the flow's last record lies in front of where the way back would begin."""
    target, behind_others = context.cluster(flow.target), context.state.behind_others(flow.name)
    mirrors = context.state.identities().mirror_ids(target.cluster_id())
    for tail in tails:
        at = tail.assignment.target
        written = [sync for sync in tail.syncs if sync.records]
        if not written or at.key in behind_others:
            continue
        start, end = written[0].target_start, written[-1].target_end
        found = first_record(target, at, start, end, is_decided=mirrors.__contains__)
        if found is not None:
            raise PreconditionError(
                f"{at.words} of {flow.target} holds what others wrote, from offset {found[0]} on, in front "
                f"of what {flow.name} copied last: the way back would not bring it; nothing was recorded. Leave "
                "the topic out (--topic names the others)"
            )
