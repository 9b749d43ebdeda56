"""The rounds of one run of a flow.

A round is what a few copy tasks do in some seconds; they continue over rounds (`continuing`). The facts of round n are
appended while round n + 1 runs, so a driver that dies leaves at most two rounds unrecorded; the next one finds their
records on the target. Facts that move a partition other than by copying are read back before it is assigned again.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache

from ledger.clock import Clock, StopSignal, now_by
from ledger.config.values import FlowConfig, TargetMode
from ledger.durations import Durations
from ledger.errors import (
    ClusterUnavailableError,
    PreconditionError,
    ProtocolError,
    RefusedIdError,
    UsageError,
)
from ledger.facts.cut_offsets import Cut
from ledger.facts.findings import FindingName, Findings, Side
from ledger.facts.identity import FlowProducer
from ledger.facts.requests import FlowRequests, Pauses, pausing
from ledger.facts.roles import APPLY_WRITER
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.syncs import GapCause, OffsetSync, SyncKind
from ledger.facts.tables import OFFSET_SYNCS
from ledger.kafka.cluster import ClusterAdmin
from ledger.mirror.assignment import Assignment, PartitionResult, Stop, StopCause
from ledger.mirror.continuing import CopyJob, RoundRunner
from ledger.mirror.dead_letters import DeadLetters
from ledger.mirror.direction import DirectionWatch
from ledger.mirror.other_mirrors import signs_of_mirror_maker
from ledger.mirror.progress import (
    ConfigurationFile,
    Heartbeat,
    LoopPrevention,
    RestoredByOtherFlow,
    RunEnd,
    RunProgress,
    RunSummary,
    SourceEnds,
    continues,
    progress_of,
    split_by_load,
)
from ledger.mirror.requests import RequestHandler, not_reloaded
from ledger.mirror.starts import (
    AlsoCopiedBy,
    CutStarts,
    OtherFlows,
    PairEnds,
    Settlements,
    StartedPartition,
    StartPositions,
)
from ledger.mirror.states import FlowProgress, ForeignWriters, PartitionState
from ledger.mirror.stops import (
    POLICY_CAUSES,
    PolicyOutcome,
    StopEvents,
    StoppedPartition,
    StopPolicies,
    advice,
    open_again,
)
from ledger.mirror.topics import FlowTopics
from ledger.mirror.watches import (
    PARTITION_FINDINGS,
    REACH_FINDINGS,
    RUN_FINDINGS,
    PartitionWatch,
    ReachWatch,
    RunWatch,
    Troubles,
)
from ledger.recorders.findings import PlanWatch
from ledger.store.session import AppendExecutor, ClaimedOperations, WriterSession, one_thread
from ledger.topics.naming import TailPolicy, matches_any

log = logging.getLogger(__name__)

_IDLE_PAUSE_S = 0.5
_UNAVAILABLE_AFTER_S = 30.0
_STALE_AFTER_ROUNDS = 3
_STALE_AFTER_S = 15.0
"""At least: a first round also starts workers, and its answers count as asked for at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """A run of a flow: what its driver talks to, and what is asked of it.

    `host`: this process, as writers say it. `until_caught_up`: with the ends as of its start; else until asked to stop.
    `on_round` gets the progress after every round, and when there was nothing to copy.
    `last_stop`: stops up to this place among operations were meant for earlier drivers, None: all that there are.
    `after`: the epoch that this one is to follow, None: any.
    `from_cut`: partitions that it is about begin there, or continue behind it.
    `takes_given`: the target takes no producer id that it has not given.
    `file`: the configuration that it can be asked to read again, None: it has none.
    `summary`: what the process has done before, which is counted on.
    `troubles`: by finding what there is to be said of the run beside its clusters, asked once a round.
    `probing` is the context in which somebody tells the watch whether the clusters answer, `beside` one in which
    others append under the same claim, `while_away` one for as long as it waits for its ledger.
    """

    flow: FlowConfig
    topics: FlowTopics
    source: ClusterAdmin
    target: ClusterAdmin
    fact_log: FactLog
    state: LedgerState
    operations: ClaimedOperations
    runner: RoundRunner
    clock: Clock
    executor: Callable[[], AppendExecutor] = one_thread
    host: str
    until_caught_up: bool
    stop: StopSignal
    on_round: Callable[[RunProgress], None]
    on_claimed: Callable[[], None] = lambda: None
    restored_by_other_flow: RestoredByOtherFlow = lambda _topic: frozenset()
    also_copied_by: AlsoCopiedBy = lambda _topic: frozenset()
    last_stop: int | None = None
    after: int | None = None
    from_cut: Cut | None = None
    file: ConfigurationFile | None = None
    summary: RunSummary = field(default_factory=RunSummary)
    troubles: Mapping[FindingName, Troubles] = field(default_factory=dict)
    probing: Callable[[ReachWatch], AbstractContextManager[object]] = nullcontext
    beside: Callable[[WriterSession], AbstractContextManager[object]] = nullcontext
    while_away: Callable[[], AbstractContextManager[object]] = nullcontext
    takes_given: bool = False

    def at_cut(self, directions: DirectionWatch, producer: FlowProducer) -> CutStarts:
        """Where the flow begins or continues behind a cut, if it writes with this producer id."""
        return CutStarts(
            self.flow,
            self.source,
            self.target,
            self.state,
            producer,
            directions.cut_of,
            self.state.recreations(),
        )


class RoundLoop:
    """The rounds of one run, with all that takes part in them; `is_first_run`: the flow never ran before.

    `last_stop`: requests to end up to this one were meant for earlier drivers.
    """

    def __init__(
        self,
        run: FlowRun,
        session: WriterSession,
        directions: DirectionWatch,
        target_cluster_id: str,
        *,
        is_first_run: bool,
        last_stop: int,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        """As the ledger is after the claim."""
        flow, state, operations, clock = run.flow, run.state, run.operations, run.clock

        def findings(about: Collection[FindingName]) -> Findings:
            return Findings(flow.name, about, operations, state)

        self.flow, self.topics, self.state, self.clock, self.session = flow, run.topics, state, clock, session
        self.source, self.target, self.runner, self.on_round = (
            run.source,
            run.target,
            run.runner,
            run.on_round,
        )
        self.dead_letters = dead_letters
        self.directions, self.last_stop, self.summary = directions, last_stop, run.summary
        # Two first drivers may each have allocated an id: the first claim's is the flow's.
        self.producer = state.identities().producers(target_cluster_id)[flow.name]
        at_cut = run.at_cut(directions, self.producer)
        directions.needs_another_producer = at_cut.needs_another_producer
        directions.fenced_topics = lambda: state.identities().fenced_topics(flow.name, target_cluster_id)
        self.progress = FlowProgress(state.positions(flow.name), self.producer)
        self.stop_events = StopEvents(flow.name, operations)
        self.start_positions = StartPositions(
            flow,
            run.source,
            self.progress,
            state.stopped_partitions(flow.name),
            state.acceptances(flow.name),
            is_first_run,
            OtherFlows(flow.name, state, run.also_copied_by),
            directions.hold,
            at_cut,
            Settlements(flow.name, state, self.producer.current).before,
        )
        self.stop_policies = StopPolicies(flow, run.source, run.target, self.producer, state)
        self.handler = RequestHandler(
            flow.name,
            self.progress,
            run.source,
            run.target,
            operations,
            self.stop_events.resumed,
            directions.hold,
            self._read_file_again,
        )
        self.foreign_writers = ForeignWriters(
            run.target,
            lambda: state.identities().producers(target_cluster_id),
            cache(lambda: signs_of_mirror_maker(run.target, clock)),
        )
        self.selection = LoopPrevention(flow, state, run.restored_by_other_flow)
        self.heartbeat = Heartbeat(flow, session, clock)
        self.plans = PlanWatch(lambda: state.last_claim(APPLY_WRITER), clock)
        self.watch = PartitionWatch(
            findings(PARTITION_FINDINGS), run.source, clock, stuck_after_s=flow.open_transaction_seconds
        )
        self.run_watch = RunWatch(findings(RUN_FINDINGS), run.troubles)
        self.reach = ReachWatch(
            findings(REACH_FINDINGS), clock, {Side.SOURCE: flow.source, Side.TARGET: flow.target}
        )
        self._pauses = Pauses()
        self._latency = Durations()
        self._source_ends = SourceEnds()
        self._followed_at = float("-inf")
        self._job: CopyJob | None = None
        self._is_incomplete = self._are_topics_unread = False
        """Topics of the first refresh wait for a quota of the target."""
        self._progressed_at = 0.0
        self._leaderless = frozenset[tuple[str, int]]()
        self._troubles = frozenset[str]()
        self.file = run.file

    def run(self, *, until_caught_up: bool, stop: StopSignal) -> RunSummary:
        self._progressed_at = self.clock.monotonic()
        while not stop.is_set():
            requests, directions = self.state.requests_and_directions(self.flow.name)
            if requests.asks_to_stop(since=self.last_stop):
                return self._end(RunEnd.ASKED_TO_STOP, asked_by=requests.last_stop_by)
            self.heartbeat.beat()
            self.run_watch.check()
            self.reach.record()
            if directions != self.directions.directions:
                self._end_job()
                self.selection.direction_changed()
            if self.directions.obey(directions, self.progress, self.stop_events, copied=self.session.wait):
                self._followed_at = float("-inf")
            self._follow_topics_when_due(until_caught_up)
            self._answer(requests)
            if self._is_reloaded():
                return self._end(RunEnd.RELOADED)
            self._ask_for_outcomes()
            assignments = self._assignments()
            pace = self.plans.at_most(self.flow.round_seconds)
            if not continues(self._job, assignments, self.progress.loads, seconds=pace):
                self._end_job()
            elif assignments:
                self._round(assignments)
                if until_caught_up:
                    self._check_progress()
            elif until_caught_up and self.topics.changes.waits_until is None:
                return self._end(RunEnd.CAUGHT_UP)
            else:
                self.reach.copied((), began=now_by(self.clock))
                self._report_progress()
                stop.wait(_IDLE_PAUSE_S)
        return self._end(RunEnd.SIGNALLED)

    def abandon(self) -> None:
        """No task is at work any more when it returns."""
        if self._job is not None and not self._job.is_over:
            self._job.abandon()

    def _has_only_begun(self, state: PartitionState) -> bool:
        """Asked of those alone that stand before others' records: what is recorded of a partition is slow to read."""
        is_before_others = state.stop is not None and state.stop.cause is StopCause.FOREIGN_WRITE
        return is_before_others and self.state.has_only_begun(self.flow.name, state.as_recorded())

    def _end(self, end: RunEnd, *, asked_by: str | None = None) -> RunSummary:
        """How things stand once all is recorded; a run that left something has not caught up."""
        self._end_job()
        self.session.wait()
        self.reach.ended()
        states, summary = self.progress.states, self.summary
        summary.stopped = [
            StoppedPartition(
                state.pair.source.topic,
                state.pair.source.partition,
                str(state.stop.cause),
                state.stop.message,
                advice(state.stop.cause),
                has_copied=not self._has_only_begun(state),
            )
            for state in states
            if state.stop is not None
        ]
        summary.blocked = dict(self.topics.blocked)
        summary.unreached = self.progress.unreached()
        topics = {state.pair.source.topic for state in states}
        summary.paused = [request for request in summary.paused if request.topic in {None, *topics}]
        is_held_back = summary.stopped or summary.blocked or summary.paused or summary.unreached
        summary.end = RunEnd.NOT_CAUGHT_UP if end is RunEnd.CAUGHT_UP and is_held_back else end
        summary.asked_by = asked_by
        return summary

    # -- topics ----------------------------------------------------------------------------------

    def _follow_topics_when_due(self, until_caught_up: bool) -> None:
        """New topics and partitions join; a run until caught up takes those of its start only."""
        now = self.clock.monotonic()
        is_first = self._followed_at == float("-inf") or self._is_incomplete
        waits_until = self.topics.changes.waits_until
        if waits_until is not None:
            self.reach.held_back(Side.TARGET, self.topics.changes.waits_ms)
        is_due = is_first if waits_until is None else now >= waits_until
        is_due |= not until_caught_up and now >= self._followed_at + self.flow.topic_refresh_seconds
        if not is_due:
            return
        self._followed_at = now
        try:
            self._follow_topics(until_caught_up, is_first_refresh=is_first)
            self._check_unattended()
        except ClusterUnavailableError as error:
            if is_first:
                raise
            log.warning(
                "%(flow)s: topics could not be read: %(cause)s", {"flow": self.flow.name, "cause": error}
            )
            self._are_topics_unread = True
        else:
            if self._are_topics_unread:
                log.info("%(flow)s: topics are read again", {"flow": self.flow.name})
            self._are_topics_unread = False
        self._is_incomplete = is_first and self.topics.changes.waits_until is not None

    def _follow_topics(self, until_caught_up: bool, *, is_first_refresh: bool) -> None:
        pairs = self.topics.follow(
            written_topic_ids=self.progress.written_topic_ids | self.directions.topic_ids_of_cut,
            hold=self.directions.hold,
        )
        new = self.progress.unknown(pairs)
        self._leaderless = frozenset()
        if not new:
            return
        self._end_job()
        source_ends = self.source.ends([p.source.place for p in new])
        target_ends = self.target.ends([p.target.place for p in new])
        starts = self.start_positions.start_offsets(new, is_first_refresh=is_first_refresh)
        taken_already = self.start_positions.taken_already(new)
        taken_on = []
        leaderless: set[tuple[str, int]] = set()
        for pair in new:
            source = source_ends.get(pair.source.place)
            target = target_ends.get(pair.target.place)
            if source is None or target is None:
                at = pair.source.place
                log.warning(
                    "%(flow)s: %(topic)s partition %(partition)d has no leader; it is taken on later",
                    {"flow": self.flow.name, "topic": at[0], "partition": at[1]},
                )
                leaderless.add(at)
                self._followed_at = float("-inf") if until_caught_up else self._followed_at
                continue
            taken = self.start_positions.take_on(
                PairEnds(pair, source, target),
                started_at=starts.get(pair.source.key),
                is_first_refresh=is_first_refresh,
                taken_already=taken_already.get(pair.source.key),
            )
            if until_caught_up:
                taken.state.end_offset = source.last_stable
            self.progress.take_on(taken.state)
            taken_on.append(taken)
        self._leaderless = frozenset(leaderless)
        self._record([fact for taken in taken_on for fact in taken.facts])
        self._record_starts(taken_on)

    def _check_unattended(self) -> None:
        """A target whose source was deleted, or is left out, may lose what was copied: no task would meet that."""
        for state, outcome in self.stop_policies.lost_unattended(self.progress.unattended()):
            stop = state.stop
            self._carry_out(state, outcome)
            state.stop = stop
            self.progress.went_back(state)

    def _record_starts(self, taken_on: Sequence[StartedPartition]) -> None:
        over = [taken.state.pair for taken in taken_on if taken.is_stop_over]
        stops = [(taken.state.pair, taken.new_stop) for taken in taken_on if taken.new_stop is not None]
        self.stop_events.resumed([*(left.pair for taken in taken_on for left in taken.left), *over])
        for pair in over:
            self.start_positions.over(pair)
        self.stop_events.stopped(stops)
        for pair, stop in stops:
            self.start_positions.note(pair, stop)

    # -- requests --------------------------------------------------------------------------------

    def _answer(self, requests: FlowRequests) -> None:
        self.summary.paused = pausing(requests.asked)
        self._pauses = Pauses.by(self.summary.paused)
        if requests.waiting:
            self._end_job()
        for request in requests.waiting:
            if any(request.concerns(*partition) for partition in self._leaderless):
                log.info(
                    "%(flow)s: a request waits for a partition that has no leader", {"flow": self.flow.name}
                )
                continue
            try:
                facts, give_receipt = self.handler.answer(request, requests.before(request))
            except ClusterUnavailableError as error:
                log.warning("%(flow)s: a request waits: %(cause)s", {"flow": self.flow.name, "cause": error})
                return
            self._record(facts)
            give_receipt()
            self.progress.compare_sources()

    def _is_reloaded(self) -> bool:
        """Whether the configuration was read again, as a request or a signal asked, and is another."""
        if self.file is None:
            return False
        if self.file.asked.is_set():
            self.file.asked.clear()
            try:
                log.info(
                    "%(flow)s: reloaded: %(what)s", {"flow": self.flow.name, "what": self._read_file_again()}
                )
            except (UsageError, PreconditionError) as error:
                log.error(
                    "%(flow)s: not reloaded: %(cause)s",
                    {"flow": self.flow.name, "cause": "; ".join(error.lines)},
                )
        return self.file.accepted is not None

    def _read_file_again(self) -> str:
        if self.file is None:
            return not_reloaded()
        return self.file.read_again(
            self.state.positions(self.flow.name), self.state.accepted_reductions(self.flow.name)
        )

    # -- rounds ----------------------------------------------------------------------------------

    def _assignments(self) -> list[Assignment]:
        found = self.progress.assignments(
            self.producer,
            exclusive=self.flow.target_mode is TargetMode.EXCLUSIVE,
        )
        wanted = [
            assignment
            for assignment in found
            if not self._pauses.covers(assignment.source.topic)
            and assignment.source.topic not in self.topics.blocked
        ]
        chosen = self.selection.applied_to(wanted)
        rate = self.flow.byte_rate
        of_task = None if rate is None else rate / max(1, min(self.flow.tasks, len(chosen)))
        return [replace(self._with_policy(assignment), byte_rate=of_task) for assignment in chosen]

    def _with_policy(self, assignment: Assignment) -> Assignment:
        cleanup_policy = self.topics.cleanup_policies.get(assignment.source.topic)
        policy = TailPolicy.of(self.flow.on_tail_lost, cleanup_policy)
        return replace(
            assignment,
            copies_tail_again=policy is TailPolicy.COPY_AGAIN,
            is_target_cleaned=assignment.target.topic in self.topics.cleaned_targets,
            is_source_cleaned="compact" in (cleanup_policy or ""),
            comes_first=matches_any(self.flow.topics_first, assignment.source.topic),
        )

    def _end_job(self) -> None:
        """What comes next is decided when no task has a partition: where they have got to is known then.

        The round that they end is cut short, so it does not say how much each partition brings.
        """
        if self._job is None:
            return
        loads = self.progress.loads
        while self._job is not None:
            self._job.end()
            self._take_round(self._job)
        self.progress.note_loads(loads)

    def _round(self, assignments: Sequence[Assignment]) -> None:
        if self._job is None:
            shares = split_by_load(assignments, self.progress.loads, tasks=self.flow.tasks)
            self._round_began = now_by(self.clock)
            self._job = self.runner.begin(shares, seconds=self.plans.at_most(self.flow.round_seconds))
        self._take_round(self._job)

    def _take_round(self, job: CopyJob) -> None:
        """The next round of a job, whose facts are recorded while its tasks continue."""
        results, began = job.next_round(), self._round_began
        self._round_began = now_by(self.clock)
        self._job = None if job.is_over else job
        if refused := next((one.stop for one in results if one.refuses_id), None):
            raise RefusedIdError(f"{self.flow.name}: {refused.message}; nothing was recorded")
        self.reach.copied(results, began=began)
        self._source_ends.note(results, asked_at=began.monotonic, now=self.clock.monotonic())
        begun = self.progress.first_time()
        for result in results:
            self.progress.take(result)
            self.summary.count(result)
            if result.latency is not None:
                self._latency.add_all(result.latency)
        facts = [sync for result in results for sync in result.syncs]
        self._record_stops(results)
        self._record_notices(results)
        self._submit(facts)
        if facts or any(result.tail.start > result.assignment.tail.start for result in results):
            self._progressed_at = self.clock.monotonic()
        for result in results:
            self._react(result)
        self._report_troubles(results)
        self._watch(results, begun)
        self.summary.rounds += 1
        self._report_progress()
        if not job.is_over:
            self.session.wait()
            job.recorded()

    def _watch(self, results: Sequence[PartitionResult], begun: frozenset[tuple[str, int]]) -> None:
        try:
            reopened = {
                state.pair.source.place: open_again(state)
                for state in self.progress.states
                if state.open_from is not None
            }
            uncompared = {state.pair.source.place: state.is_uncompared for state in self.progress.states}
            self.watch.check(results, begun=begun, reopened=reopened, uncompared=uncompared)
        except ClusterUnavailableError as error:
            log.warning(
                "%(flow)s: findings could not be judged: %(cause)s", {"flow": self.flow.name, "cause": error}
            )

    def _record_stops(self, results: Sequence[PartitionResult]) -> None:
        """Stops that no policy covers. As all stops they are recorded before the facts that come with them.

        A driver that died in between would leave facts from which the next one continues as if nothing had happened.
        """
        stops = []
        for result in results:
            if result.stop is not None and not self._is_examined(result):
                state = self.progress.state_of(result)
                has_written = state.position.next_sequence > 0
                state.stop = self.foreign_writers.named(
                    result.stop, state.pair.target, has_written=has_written
                )
                stops.append((state.pair, state.stop))
        self.stop_events.stopped(stops)

    def _record_notices(self, results: Sequence[PartitionResult]) -> None:
        for result in results:
            if result.copied_again is not None:
                self.stop_events.copied_again(self.progress.state_of(result).pair, result.copied_again)
            if result.markers and self.flow.opposite is not None:  # else nobody ever comes back to the target
                self.stop_events.markers(self.flow.target, result.assignment.target, result.markers)

    def _react(self, result: PartitionResult) -> None:
        """A partition that a task could not continue: it stops or resumes, with facts about what was found."""
        if result.stop is None or not self._is_examined(result):
            return
        self.session.wait()
        state = self.progress.state_of(result)
        try:
            outcome = self._put_aside(state, result) or self.stop_policies.to(state, result, result.stop)
        except ClusterUnavailableError as error:
            self._warn_of(state, f"to be tried again: {error}")
            return
        except ProtocolError as error:
            message = f"the target's log could not be read: {error}; nothing was written"
            outcome = PolicyOutcome(stop=Stop(StopCause.TARGET_CORRUPT, message))
        self._carry_out(state, outcome)

    def _carry_out(self, state: PartitionState, outcome: PolicyOutcome) -> None:
        if outcome.stop is not None:
            self.stop_events.stopped([(state.pair, outcome.stop)])
        self._record(outcome.facts)
        self.progress.withdraw(outcome.facts)
        self.summary.count_lost(outcome.facts)
        state.stop = outcome.stop
        if outcome.facts:
            self._lower_end(state)
        if outcome.stop is None and outcome.notice is not None:
            self._warn_of(state, outcome.notice)

    def _ask_for_outcomes(self) -> None:
        """A source that lost its end: continue once it is known how transactions ended that reach across it."""
        if any(state.asks_for_outcomes for state in self.progress.states):
            self._end_job()
        for state in self.progress.states:
            if state.stop is None and state.asks_for_outcomes:
                try:
                    outcome = self.stop_policies.ended_otherwise(state)
                except ClusterUnavailableError as error:
                    self._warn_of(state, f"to be tried again: {error}")
                    continue
                self._carry_out(state, outcome)

    def _is_examined(self, result: PartitionResult) -> bool:
        """Whether the flow's policies say what becomes of a stop."""
        is_refused = result.refused is not None and self.dead_letters is not None
        return is_refused or (result.stop is not None and result.stop.cause in POLICY_CAUSES)

    def _put_aside(self, state: PartitionState, result: PartitionResult) -> PolicyOutcome | None:
        """A record that the target refused goes to the flow's dead letter topic; None where there is none."""
        record = result.refused
        if record is None or self.dead_letters is None:
            return None
        topic_id = state.pair.source.topic_id
        count = sum(one.pair.source.topic_id == topic_id for one in self.progress.states)
        stop = self.dead_letters.put(result, record, partitions=count)
        if stop is not None:
            return PolicyOutcome(stop=stop)
        what = f"the record at source offset {record.offset} was put aside: error {record.error}"
        self.watch.put_aside(state.pair.source.place, f"{state.name}: {what}")
        fact = state.leave_out(record.offset + 1, GapCause.DEAD_LETTER)
        return PolicyOutcome((fact,), notice=what)

    def _lower_end(self, state: PartitionState) -> None:
        """A source that lost records may end before what a run until caught up is to reach."""
        at = state.pair.source.place
        if state.end_offset is not None and (ends := self.source.ends([at]).get(at)) is not None:
            state.end_offset = min(state.end_offset, ends.last_stable)

    def _record(self, facts: Sequence[OffsetSync]) -> None:
        """Append and read back: what comes next relies on it.

        Superseded rows get a round of their own: they would be the last word of any other.
        """
        for is_superseded in (True, False):
            self._submit([fact for fact in facts if (fact.kind is SyncKind.SUPERSEDED) is is_superseded])
            self.session.wait()

    def _submit(self, facts: Sequence[OffsetSync]) -> None:
        identity = FlowIdentity(self.flow.name, self.flow.source, self.flow.target, self.producer.current)
        self.session.append_in_background(OFFSET_SYNCS.name, [sync_row(identity, fact) for fact in facts])

    # -- telling ---------------------------------------------------------------------------------

    def _report_progress(self) -> None:
        progress = progress_of(
            self.summary,
            self.progress.states,
            self._source_ends,
            is_paused=self._pauses.covers,
            blocked=self.topics.blocked,
            now=self.clock.monotonic(),
            stale_after_s=max(_STALE_AFTER_S, _STALE_AFTER_ROUNDS * self.flow.round_seconds),
        )
        self.on_round(replace(progress, latency=self._latency))

    def _warn_of(self, state: PartitionState, what: str) -> None:
        source = state.pair.source
        log.warning(
            "%(flow)s: %(topic)s partition %(partition)d: %(what)s",
            {"flow": self.flow.name, "topic": source.topic, "partition": source.partition, "what": what},
        )

    def _report_troubles(self, results: Sequence[PartitionResult]) -> None:
        """Say once what keeps partitions from getting on, and once that it is over."""
        troubles = frozenset(result.trouble for result in results if result.trouble is not None)
        for trouble in troubles - self._troubles:
            log.warning("%(flow)s: %(cause)s", {"flow": self.flow.name, "cause": trouble})
        if self._troubles and not troubles:
            log.info("%(flow)s: copying again", {"flow": self.flow.name})
        self._troubles = troubles

    def _check_progress(self) -> None:
        """All that such a run waits for was there when it began: a standstill is a failure, not patience."""
        waited_s = self.clock.monotonic() - self._progressed_at
        unreached = [left for left in self.progress.unreached() if not self._pauses.covers(left.topic)]
        if unreached and waited_s > _UNAVAILABLE_AFTER_S:
            reasons = sorted(self._troubles) or map(str, unreached)
            raise ClusterUnavailableError(
                f"{self.flow.name}: nothing could be copied for {waited_s:.0f} s: {'; '.join(reasons)}; "
                "what was copied before is recorded"
            )
