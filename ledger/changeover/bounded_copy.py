"""A bounded copy: given ranges of partitions are copied by a flow's own rules, in this process, and it ends.

It runs the tasks that drivers run, under the flow's claim: each reads the end of the target before it writes, and what
it did is recorded round by round. So what was killed in the middle is continued, and each record is there once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ledger.changeover.extras import Extras
from ledger.clock import SystemClock
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.syncs import FlowPosition, OffsetRange, OffsetSync, SyncKind
from ledger.kafka.cluster import PartitionEnds, live_cluster
from ledger.kafka.topics import parts
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult
from ledger.mirror.driver import ClaimedFlow, claim_row, claimed_behind
from ledger.mirror.progress import Heartbeat
from ledger.mirror.states import FlowProgress, PartitionState
from ledger.mirror.task import CopyTask
from ledger.store.producers import KeptMirrorProducers, no_mirror_producers
from ledger.words import counted, some_of

_ROUND_S = 5.0
_UNAVAILABLE_AFTER_S = 60.0
PARTITIONS_AT_ONCE = 50

Say = Callable[[str], None]


def require_committed(
    found: Sequence[Extras], ends: Mapping[tuple[str, int], PartitionEnds], alias: str
) -> None:
    """Raise `PreconditionError` where a transaction is open in front of the end of extras."""
    open_ones = [
        one.partition.words for one in found if ends[one.partition.place].last_stable < one.ranges[-1][1]
    ]
    if open_ones:
        raise PreconditionError(
            f"a transaction is open in {some_of(open_ones, 'partition')} of {alias}: what lies behind it cannot be "
            "copied before it has ended; nothing was decided. Fence it with --abort-open-transactions-after, then try "
            "again"
        )


@dataclass(slots=True)
class BegunCopy:
    """A partition, up to where it is to be copied, what lies between that is not, and what is to be recorded before."""

    state: PartitionState
    end: int
    left_out: tuple[OffsetRange, ...]
    facts: tuple[OffsetSync, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.state.position.source_offset >= self.end and self.state.tail.both_sides_seen


@contextmanager
def bounded_copy(
    context: Context,
    flow: FlowConfig,
    *,
    is_renewed: Callable[[Sequence[FlowPosition]], bool] = lambda _known: False,
) -> Iterator["BoundedCopy"]:
    """The flow claimed for the body, and released.

    `is_renewed`: whether it gets another producer id, by its positions. Raises `PreconditionError` while somebody else
    may write for it, `ShutOutError` where that one was faster.
    """
    state = context.state
    after = require_stopped(flow, state)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    known = state.positions(flow.name)
    row = claim_row(
        flow,
        source=live_cluster(source),
        target=target,
        state=state,
        host=str(context.processes.own()),
        is_renewed=lambda _producer: is_renewed(known),
    )
    claimed = claimed_behind(flow, context.fact_log, state, row, after=after)
    with claimed.session as session:
        try:
            yield BoundedCopy(context, claimed, source.cluster_id())
        finally:
            session.release()


CarryOut = Callable[[Sequence[Assignment], float], list[PartitionResult]]
"""Runs a task over partitions for so many seconds at most."""


@contextmanager
def tasks_here(context: Context, flow: FlowConfig, source_id: str) -> Iterator[CarryOut]:
    """The tasks of a flow's driver in this process, over connections that end with the body."""
    writers = (
        no_mirror_producers if flow.relay else KeptMirrorProducers(context.config.ledger.path, source_id)
    )
    with context.network(flow.source, flow.target) as network:

        def carry_out(assignments: Sequence[Assignment], seconds: float) -> list[PartitionResult]:
            task = CopyTask(assignments, network, writers(), SystemClock(), CopyLimits())
            return task.run(seconds=seconds)

        yield carry_out


class BoundedCopy:
    """One epoch of the flow; `progress`: where its partitions are recorded to be."""

    def __init__(self, context: Context, claimed: ClaimedFlow, source_id: str) -> None:
        self.context, self.flow, self.producer = context, claimed.flow, claimed.producer
        self.progress = FlowProgress(context.state.positions(self.flow.name), self.producer)
        self._claimed = claimed
        self._heartbeat = Heartbeat(self.flow, claimed.session, context.clock)
        self._source_id = source_id

    def run(self, begun: Sequence[BegunCopy], say: Say) -> None:
        """Record where partitions begin, then copy until all is there, in rounds that are recorded one after the other.

        Raises `PreconditionError` where a partition cannot be copied, `ClusterUnavailableError` where nothing could be
        for a minute; what was copied until then is recorded, and found when it is begun again.
        """
        facts = [fact for one in begun for fact in one.facts]
        # What supersedes is a round of its own: it voids what its own round says behind it.
        for is_last in (False, True):
            self._claimed.append([fact for fact in facts if (fact.kind is SyncKind.SUPERSEDED) != is_last])
        moved_at, clock = self.context.clock.monotonic(), self.context.clock
        with tasks_here(self.context, self.flow, self._source_id) as carry_out:
            while left := [one for one in begun if not one.is_done]:
                for some in parts(left, PARTITIONS_AT_ONCE):
                    results = carry_out([self._assignment(one) for one in some], _ROUND_S)
                    if self._take(some, results):
                        moved_at = clock.monotonic()
                self._heartbeat.beat()
                if clock.monotonic() - moved_at > _UNAVAILABLE_AFTER_S:
                    reasons = sorted({one.trouble for one in results if one.trouble}) or ["no answer"]
                    raise ClusterUnavailableError(
                        f"{self.flow.name}: nothing could be copied for {_UNAVAILABLE_AFTER_S:.0f} s: "
                        f"{'; '.join(reasons)}; what was copied before is recorded, and nothing was decided"
                    )
                copied = sum(one.state.position.source_offset >= one.end for one in begun)
                say(f"{self.flow.name}: {copied} of {counted(len(begun), 'partition')} copied")

    def _take(self, some: Sequence[BegunCopy], results: Sequence[PartitionResult]) -> bool:
        """Record what a task did; whether it did anything. Raises where a partition cannot be copied."""
        by_source = {result.assignment.source: result for result in results}
        moved = False
        for one in some:
            result = by_source[one.state.pair.source]
            moved |= bool(result.syncs) or result.tail != one.state.tail
            one.state.position, one.state.tail = result.position, result.tail
        self._claimed.append([sync for result in results for sync in result.syncs])
        stops = {result.assignment.source: result.stop for result in results if result.stop is not None}
        if stops:
            names = [at.words for at in stops]
            first = next(iter(stops.values()))
            raise PreconditionError(
                f"extras of {some_of(names, 'partition')} cannot be copied: {first.message}; what was copied before is "
                "recorded, and nothing was decided"
            )
        return moved

    def _assignment(self, one: BegunCopy) -> Assignment:
        state = one.state
        return Assignment(
            source=state.pair.source,
            target=state.pair.target,
            position=state.position,
            producer=self.producer,
            end_offset=one.end,
            exclusive=False,
            tail=state.tail,
            record_filter=self.flow.filter.record_filter,
            kept_local=one.left_out,
        )

    def records_of(self, one: Extras) -> int:
        """How many records of extras the flow's map has."""
        return sum(
            sync.sync.records
            for sync in self.context.state.recorded_syncs(
                self.flow.name, one.partition.topic, one.partition.partition
            )
            if sync.sync.source == one.partition
            and any(start <= sync.sync.source_start < end for start, end in one.ranges)
        )
