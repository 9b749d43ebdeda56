"""How far a run of a flow is, how it ended, and what is watched between its rounds."""

import hashlib
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ledger.clock import Clock
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.durations import Durations
from ledger.errors import ConfigurationError, PreconditionError
from ledger.facts.deficits import DecidedDeficits
from ledger.facts.extras import DecidedExtras
from ledger.facts.history import adopted_ranges, not_returning, returning_ranges
from ledger.facts.identity import FlowProducer
from ledger.facts.operations import ConfigurationChanged, ScopeReduced
from ledger.facts.requests import OperatorRequest
from ledger.facts.state import LedgerState, OperationLog
from ledger.facts.syncs import FlowPosition, OffsetRange, OffsetSync, SyncKind, from_offset, joined
from ledger.mirror.assignment import Assignment, PartitionResult
from ledger.mirror.continuing import CopyJob
from ledger.mirror.states import PartitionKey, PartitionState, Unreached
from ledger.mirror.stops import StoppedPartition
from ledger.store.session import WriterSession
from ledger.topics.naming import TopicSelection
from ledger.words import listed

# Run summary --------------------------------------------------------------------------------------
# What a run of a flow has done so far, and how it ended.


class RunEnd(StrEnum):
    """How a run ended. `CAUGHT_UP` and `NOT_CAUGHT_UP` are of runs until caught up that nobody ended."""

    CAUGHT_UP = "caught_up"  # all that the source had at the start was copied
    NOT_CAUGHT_UP = "not_caught_up"  # what is left is paused, stopped, or blocked
    ASKED_TO_STOP = "asked_to_stop"  # by an operator, through the ledger
    RELOADED = "reloaded"  # the same process continues at once, by its configuration file as it is now
    SIGNALLED = "signalled"


@dataclass(slots=True)
class RunSummary:
    """Counters of one run, and how things stand at its end.

    `end` None: it still runs. `asked_by`: who asked to stop. `stopped`: partitions that need a decision. `blocked`: by
    source topic why nothing of it is copied. `paused`: the requests whose pauses hold partitions of the flow.
    """

    rounds: int = 0
    records: int = 0
    bytes: int = 0
    raw_batches: int = 0
    record_path_batches: int = 0
    merged_batches: int = 0
    recovered_records: int = 0
    lost_offsets: int = 0
    end: RunEnd | None = None
    asked_by: str | None = None
    stopped: list[StoppedPartition] = field(default_factory=list)
    blocked: Mapping[str, str] = field(default_factory=dict)
    paused: list[OperatorRequest] = field(default_factory=list)
    unreached: list[Unreached] = field(default_factory=list)

    @property
    def is_unfinished(self) -> bool:
        """Whether something needs a decision, or what the run was to copy is not all there."""
        is_short = self.end is RunEnd.NOT_CAUGHT_UP or bool(self.unreached)
        return is_short or bool(self.stopped or self.blocked)

    def count(self, result: PartitionResult) -> None:
        for sync in result.syncs:
            self.records += sync.records
            self.bytes += sync.bytes
            self.raw_batches += sync.raw_batches
            self.record_path_batches += sync.record_path_batches
            self.merged_batches += sync.merged_batches or 0
            self.recovered_records += sync.records if sync.recovered else 0

    def count_lost(self, facts: Iterable[OffsetSync]) -> None:
        self.lost_offsets += sum(
            fact.source_end - fact.source_start for fact in facts if fact.kind is SyncKind.LOST
        )


# Run progress -------------------------------------------------------------------------------------
# How far a running flow is, as its driver knows from its own rounds: nothing is asked for it.
#
# A task brings back where the source's log ended at its last answer. What lies between that and the flow's
# position is not copied yet; how long at least, the first end tells that was seen beyond the position.


_KEPT_ENDS = 64


@dataclass(frozen=True, slots=True)
class Lag:
    """Source offsets that are not copied, over the partitions that are being copied.

    `age_seconds`: of the oldest end that it is from; None: of none, each is the end that the run is to reach.
    `behind_seconds`: for how long at least something waits, None: nothing does, or not known for how long. `unknown`:
    partitions whose end the source has not reported in this run; they are in no other figure.
    """

    offsets: int = 0
    partitions: int = 0
    behind_seconds: float | None = None
    age_seconds: float | None = None
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What a run has done so far, and how far it is; `stopped` (or blocked) and `paused` ones are not in the lag.

    `latency`: of the batches that were acknowledged, from the time that the first record of each says.
    """

    summary: RunSummary
    lag: Lag
    stopped: int
    paused: int
    stale_after_s: float
    latency: Durations = field(default_factory=Durations)

    @property
    def is_lag_known(self) -> bool:
        """Whether the lag was measured lately, at all partitions that are being copied."""
        return not self.lag.unknown and (self.lag.age_seconds or 0.0) <= self.stale_after_s


@dataclass(slots=True)
class _Seen:
    """The last end of a partition's source, and those beyond its position, with when they were seen."""

    end: int
    asked_at: float
    beyond: list[tuple[float, int]] = field(default_factory=list)

    def pass_to(self, position: int) -> None:
        self.beyond = [(at, end) for at, end in self.beyond if end > position]
        if len(self.beyond) > _KEPT_ENDS:
            self.beyond = self.beyond[::2]


@dataclass(slots=True)
class SourceEnds:
    """The ends of the source that the rounds of a run brought back."""

    _seen: dict[PartitionKey, _Seen] = field(default_factory=dict)

    def note(self, results: Iterable[PartitionResult], *, asked_at: float, now: float) -> None:
        """What a round brought that ended `now`; its answers are from `asked_at` or later."""
        for result in results:
            key = result.assignment.source.key
            if result.source_ends is not None:
                end = result.source_ends[0]
                seen = self._seen.setdefault(key, _Seen(end, asked_at))
                seen.end, seen.asked_at = end, asked_at
                seen.beyond.append((now, end))
            if key in self._seen:
                self._seen[key].pass_to(result.position.source_offset)

    def lag(self, states: Iterable[PartitionState], *, now: float) -> Lag:
        """Of partitions that are being copied; to the end that the run is to reach, where there is one."""
        offsets = partitions = unknown = 0
        ages: list[float] = []
        waits: list[float] = []
        for state in states:
            seen = self._seen.get(state.pair.source.key)
            if state.end_offset is None and seen is None:
                unknown += 1
                continue
            partitions += 1
            end = state.end_offset
            if end is None and seen is not None:
                end = seen.end
                ages.append(now - seen.asked_at)
            behind = max(0, (end or 0) - state.position.source_offset)
            offsets += behind
            if behind and seen is not None and seen.beyond:
                waits.append(now - seen.beyond[0][0])
        return Lag(offsets, partitions, max(waits, default=None), max(ages, default=None), unknown)


def progress_of(
    summary: RunSummary,
    states: Sequence[PartitionState],
    ends: SourceEnds,
    *,
    is_paused: Callable[[str], bool],
    blocked: Container[str],
    now: float,
    stale_after_s: float,
) -> RunProgress:
    """`is_paused` and `blocked`: by source topic."""
    going = [state for state in states if state.stop is None and state.pair.source.topic not in blocked]
    active = [state for state in going if not is_paused(state.pair.source.topic)]
    return RunProgress(
        summary,
        ends.lag(active, now=now),
        stopped=len(states) - len(going),
        paused=len(going) - len(active),
        stale_after_s=stale_after_s,
    )


# Scope reduction ----------------------------------------------------------------------------------
# What a changed configuration would stop mirroring: refused at the start unless it is said to be meant.
#
# A topic counts when the ledger has offset syncs of the flow for it and the flow would no longer select it,
# or would copy it to a target topic of another name.


def require_scope(
    flow: str,
    selection: TopicSelection,
    positions: Sequence[FlowPosition],
    accepted: Mapping[str, int],
    operations: OperationLog,
    *,
    allow_reduction: bool,
) -> None:
    """Raise `PreconditionError` with the topics that would be left out, or record that this is meant.

    `accepted`: by source topic, up to which offsets (summed over partitions) it had been copied when
    leaving it out was accepted; what was copied since has to be accepted again.
    """
    reached = _reached(positions)
    left_out = topics_left_out(selection, positions, accepted)
    if not left_out:
        return
    if not allow_reduction:
        raise PreconditionError(
            f"{flow} has mirrored topics that its configuration leaves out now; nothing was copied. If that is "
            "meant, start it with --allow-scope-reduction:",
            *listed(f"{topic}: {reason}" for topic, reason in sorted(left_out.items())),
        )
    reduced = ScopeReduced({topic: reached[topic] for topic in sorted(left_out)})
    operations.record(reduced, flow=flow, reason=None)


def topics_left_out(
    selection: TopicSelection, positions: Sequence[FlowPosition], accepted: Mapping[str, int]
) -> dict[str, str]:
    """By source topic that was mirrored, why it is no more, but for those that were `accepted` as they are."""
    reached = _reached(positions)
    return {
        known.source_topic: reason
        for known in positions
        if (reason := _reason(selection, known)) is not None
        and accepted.get(known.source_topic) != reached[known.source_topic]
    }


def _reached(positions: Sequence[FlowPosition]) -> Mapping[str, int]:
    reached = Counter[str]()
    for known in positions:
        reached[known.source_topic] += known.position.source_offset
    return reached


def _reason(selection: TopicSelection, position: FlowPosition) -> str | None:
    refusal = selection.refusal(position.source_topic)
    if refusal is not None:
        return f"not selected ({refusal})"
    target = selection.naming.target_name(position.source_topic)
    if target != position.target_topic:
        return f"copied to {position.target_topic} so far, to {target} from now on"
    return None


# Loop prevention ----------------------------------------------------------------------------------
# Tells the tasks of a flow which records to leave out, and which of a mirror's writes to copy all the same.


RestoredByOtherFlow = Callable[[str], frozenset[str]]
"""By target topic: clusters from which a flow that goes before this one copies to it."""

_Key = tuple[PartitionKey, str]


class LoopPrevention:
    """What returns, was adopted or stays local is looked up once for a source partition and a target's incarnation.

    What returns does not grow while a driver is at work: an earlier incarnation was deleted, so nobody copies more of
    it, and deficits are decided while no driver of either direction is. What is adopted does not grow either while a
    driver is at work that reads it: adopting waits for its end. What stays local is decided while the flow may not
    write, so it is asked for again whenever a direction has changed; of a flow without an opposite nothing stays, for
    no direction of it ever changes.
    """

    def __init__(
        self, flow: FlowConfig, state: LedgerState, restored_by_other_flow: RestoredByOtherFlow
    ) -> None:
        self._flow = flow
        self._state = state
        self._returned_elsewhere = restored_by_other_flow
        self._filter = flow.filter.record_filter
        self._known: dict[_Key, tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]] = {}
        """What returns, and what was adopted."""
        self._kept_local: dict[_Key, tuple[OffsetRange, ...]] = {}
        self._mistakable: dict[_Key, dict[int, tuple[OffsetRange, ...]]] = {}

    def direction_changed(self) -> None:
        """What stays local is asked for again."""
        self._kept_local.clear()
        self._mistakable.clear()

    def applied_to(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        unknown = [assignment for assignment in assignments if _key(assignment) not in self._kept_local]
        if unknown:
            decided = DecidedExtras() if self._flow.opposite is None else self._state.extras()
            for assignment in unknown:
                self._kept_local[_key(assignment)] = decided.kept_local(assignment.source)
        new = [assignment for assignment in assignments if _key(assignment) not in self._known]
        if new and not self._flow.relay:
            self._look_up(new)
        if not self._flow.relay:
            self._look_up_mistakable([one for one in assignments if _key(one) not in self._mistakable])
        return [self._applied(assignment) for assignment in assignments]

    def _applied(self, assignment: Assignment) -> Assignment:
        returning, adopted = self._known.get(_key(assignment), ((), ()))
        return replace(
            assignment,
            record_filter=self._filter,
            returning=returning,
            adopted=from_offset(adopted, assignment.position.source_offset),
            kept_local=from_offset(self._kept_local[_key(assignment)], assignment.position.source_offset),
            mistakable=self._mistakable.get(_key(assignment), {}),
        )

    def _look_up(self, unknown: Sequence[Assignment]) -> None:
        current = {assignment.target.topic: assignment.target.topic_id for assignment in unknown}
        copies = self._state.former_copies(self._flow.target, current)
        histories = self._state.adoptions(frozenset(assignment.source.topic_id for assignment in unknown))
        decided = DecidedDeficits() if self._flow.opposite is None else self._state.deficits()
        for assignment in unknown:
            restored = returning_ranges(
                [copy for copy in copies if copy.source_topic == assignment.target.topic],
                held=assignment.source,
                elsewhere=self._returned_elsewhere(assignment.target.topic),
            )
            lacking = decided.returning(self._flow.target, assignment.source)
            returning = tuple(joined(sorted((*restored, *lacking))))
            adopted = not_returning(adopted_ranges(histories, held=assignment.source), returning)
            self._known[_key(assignment)] = returning, adopted

    def _look_up_mistakable(self, unknown: Sequence[Assignment]) -> None:
        """What flows have written with ids that applications may have too; asked for again where it may grow."""
        if not unknown:
            return
        identities, topics = self._state.identities(), sorted({one.source.topic for one in unknown})
        producers = identities.producers(identities.recorded_id(self._flow.source) or "")
        given = {flow: producer for flow, producer in producers.items() if producer.mistakable}
        ends = {flow: self._ends_of_writing(flow, producer, unknown) for flow, producer in given.items()}
        written = self._state.written_by_flows(self._flow.source, topics) if any(ends.values()) else {}
        for one in unknown:
            if all(one.source.key in found for found in ends.values()):
                claims = written.get(one.source.key, [])
                self._mistakable[_key(one)] = {
                    producer_id: tuple(joined(sorted([(0, ends[flow][one.source.key]), *claims])))
                    for flow, producer in given.items()
                    for producer_id in producer.mistakable
                }

    def _ends_of_writing(
        self, flow: str, producer: FlowProducer, assignments: Sequence[Assignment]
    ) -> dict[PartitionKey, int]:
        """Up to where what has a flow's ids is its own, mapped or not; nothing of partitions where it may write on.

        That is 0 where it has written with its next id, or not at all, for then its map has all that was before. Where
        it was shut out by a promotion over it, it is what was there then.
        """
        last_ids = {at.pair.target.key: at.producer_id for at in self._state.positions(flow)}
        cuts = self._state.cut_targets(flow, {one.source.topic for one in assignments})
        ends: dict[PartitionKey, int] = {}
        for at in (one.source for one in assignments):
            there = [cut.high_watermark for cut in cuts.get(at.place, ()) if cut.topic_id == at.topic_id]
            if producer.is_drawn and last_ids.get(at.key, producer.current) == producer.current:
                ends[at.key] = 0
            elif flow == self._flow.opposite and any(there):
                ends[at.key] = max(end or 0 for end in there)
        return ends


def _key(assignment: Assignment) -> _Key:
    return assignment.source.key, assignment.target.topic_id


# Configuration change -----------------------------------------------------------------------------
# Notices when a flow continues with another configuration than its last driver had, or its file changes
# meanwhile.


log = logging.getLogger(__name__)


def configuration_of(flow: FlowConfig) -> dict[str, Any]:
    """Every key of the flow with its value as JSON has it; flows hold no secrets.

    Without `enabled`: no driver ever runs with another value than true. Keys that came later, `on_tail_lost`,
    `opposite`, `dead_letters`, `sync_groups`, `emit_checkpoints`, `emit_heartbeats`, `let_in`, `topics_first` and
    `byte_rate`, are among them only where they are given: a ledger of before has no other configuration for that.
    """
    left_out = {"enabled"} | ({"on_tail_lost"} if flow.on_tail_lost is None else set())
    left_out |= {"opposite"} if flow.opposite is None else set()
    left_out |= {key for key in ("let_in", "topics_first") if not getattr(flow, key)}
    left_out |= {key for key in ("dead_letters", "byte_rate") if getattr(flow, key) is None}
    left_out |= set() if flow.sync_groups else {"sync_groups", "sync_groups_seconds"}
    left_out |= {key for key in ("emit_checkpoints", "emit_heartbeats") if not getattr(flow, key)}
    return flow.model_dump(mode="json", exclude=left_out)


def config_hash(flow: FlowConfig) -> str:
    """SHA-256 of the flow's configuration as JSON with sorted keys and without spaces."""
    text = json.dumps(configuration_of(flow), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def record_change(
    flow: FlowConfig,
    operations: OperationLog,
    *,
    last_hash: str | None,
    last_configuration: Mapping[str, Any] | None,
) -> None:
    """Record the configuration when it is not that of the last claim.

    `last_hash` None: no earlier claim says what it ran with, which is no change to warn of.
    `last_configuration` is what the ledger has under that hash, None when it has nothing.
    """
    new_hash = config_hash(flow)
    if new_hash == last_hash:
        return
    configuration = configuration_of(flow)
    changed = None if last_configuration is None else _changed_keys(last_configuration, configuration)
    if last_hash is not None:
        keys = "keys unknown" if changed is None else ", ".join(changed)
        log.warning(
            "%(flow)s: the configuration is not that of the last driver: %(keys)s",
            {"flow": flow.name, "keys": keys},
        )
    change = ConfigurationChanged(
        old_hash=last_hash, new_hash=new_hash, changed=changed, configuration=configuration
    )
    operations.record(change, flow=flow.name, reason=None)


def _changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Keys whose values differ, those included that only one of the two has."""
    absent = object()
    return sorted(key for key in old.keys() | new.keys() if old.get(key, absent) != new.get(key, absent))


_BY_RESTART = frozenset({"source", "target", "relay", "tasks"})
"""Keys of a flow that a running driver keeps: its connections, its workers and its Spark session are made by them."""


@dataclass(slots=True)
class ConfigurationFile:
    """The file that a driver was started with, as far as it is about one flow; it is read when it has changed.

    `refusal`: why this driver keeps what it began with, None: it may be asked to read the file again. `asked` is set
    when a signal asks for that.
    """

    config: MirrorConfig
    flow_name: str
    refusal: str | None = None
    asked: threading.Event = field(default_factory=threading.Event)
    accepted: MirrorConfig | None = None
    """What was read again, by which the driver is to continue."""
    _seen: tuple[int, int, int] | None = (-1, -1, -1)
    _troubles: Mapping[str, str] = field(default_factory=dict)

    def troubles(self) -> Mapping[str, str]:
        """Under the file's name what it says otherwise than the driver does, by keys, or why it cannot be used."""
        state = _state_of(Path(self.config.file))
        if state != self._seen:
            self._seen = state
            try:
                said = "; ".join(self._differences(load_config(Path(self.config.file))))
            except ConfigurationError as error:
                said = "; ".join(error.problems)
            self._troubles = {self.config.file: said} if said else {}
        return self._troubles

    def read_again(self, positions: Sequence[FlowPosition], accepted: Mapping[str, int]) -> str:
        """What the driver does otherwise from now on, by keys, and what waits for a start; `accepted` is set then.

        `positions` and `accepted`: as for `topics_left_out`. Raises `ConfigurationError` for a file with problems and
        `PreconditionError` for what a running driver cannot do: nothing changes then.
        """
        unchanged = "the driver continues as before"
        if self.refusal is not None:
            raise PreconditionError(f"{self.refusal}; {unchanged}")
        now = load_config(Path(self.config.file))
        flow = now.flows.get(self.flow_name)
        if flow is None or not flow.enabled:
            what = "; ".join(self._differences(now))
            raise PreconditionError(f"{what}; {unchanged}. `mirror-ledger stop {self.flow_name}` ends it")
        continued = self._continued(now)
        if left_out := topics_left_out(continued.topic_selection(self.flow_name), positions, accepted):
            topics = "; ".join(f"{topic}: {reason}" for topic, reason in sorted(left_out.items()))
            raise PreconditionError(
                f"mirrored topics would be left out: {topics}; {unchanged}. If that is meant, stop the flow and start "
                "it with --allow-scope-reduction"
            )
        changed = list(self._differences(continued))
        waiting = list(ConfigurationFile(continued, self.flow_name)._differences(now))
        self.accepted = continued if changed else None
        says = (
            f"from now on: {'; '.join(changed)}"
            if changed
            else "nothing that a running driver takes over has changed"
        )
        return f"{says}. Not before it is started again: {'; '.join(waiting)}" if waiting else says

    def _continued(self, now: MirrorConfig) -> MirrorConfig:
        """What of the file a running driver can follow."""
        began_with = self.config.flow(self.flow_name)
        kept = {key: getattr(began_with, key) for key in _BY_RESTART}
        flow = now.flow(self.flow_name).model_copy(update=kept)
        return self.config.model_copy(update={"flows": {**now.flows, self.flow_name: flow}, "apps": now.apps})

    def _differences(self, now: MirrorConfig) -> Iterator[str]:
        started = self.config.flow(self.flow_name)
        flow = now.flows.get(self.flow_name)
        if flow is None or not flow.enabled:
            yield f"flows.{self.flow_name} is {'gone' if flow is None else 'disabled'}"
            return
        for key in _changed_keys(configuration_of(started), configuration_of(flow)):
            yield f"flows.{self.flow_name}.{key} is another"
        for alias in (started.source, started.target):
            if now.clusters.get(alias) != self.config.cluster(alias):
                yield f"clusters.{alias} is another"
        if now.ledger != self.config.ledger:
            yield "ledger is another"
        if now.apps != self.config.apps:
            yield "apps is another"


def _state_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# Heartbeat ----------------------------------------------------------------------------------------
# A heartbeat of a driver that has nothing to append: an idle flow is silent, not dead.


class Heartbeat:
    """Lets the session append a heartbeat when nothing else was appended for `heartbeat_seconds`."""

    def __init__(self, flow: FlowConfig, session: WriterSession, clock: Clock) -> None:
        self._seconds = flow.heartbeat_seconds
        self._session = session
        self._clock = clock
        self._round = session.last_round
        self._appended_at = clock.monotonic()

    def beat(self) -> None:
        """To be called between rounds; raises what an earlier append failed with."""
        now = self._clock.monotonic()
        if self._session.last_round == self._round and now - self._appended_at >= self._seconds:
            self._session.alive_in_background()
        if self._session.last_round != self._round:
            self._round, self._appended_at = self._session.last_round, now


# Load balancing -----------------------------------------------------------------------------------
# Splits partitions over the tasks of a round by the work that each is expected to bring.


_UNEVEN = 1.5
_WORTH_SHARING = 16 * 1024 * 1024  # bytes that one task brings in a round


def split_by_load(
    assignments: Sequence[Assignment], loads: Mapping[tuple[str, int], int], *, tasks: int
) -> list[list[Assignment]]:
    """At most `tasks` lists, none empty: the heaviest partition goes to the lightest task so far.

    `loads`: bytes copied in the last round by (source topic id, partition). Ties go by order, so the
    split is the same for the same input.
    """
    shares: list[list[Assignment]] = [[] for _ in range(min(tasks, len(assignments)))]
    totals = [0] * len(shares)
    for assignment in sorted(assignments, key=lambda item: -_load(item, loads)):
        lightest = totals.index(min(totals))
        shares[lightest].append(assignment)
        totals[lightest] += _load(assignment, loads)
    return shares


def continues(
    job: CopyJob | None,
    assignments: Iterable[Assignment],
    loads: Mapping[tuple[str, int], int],
    *,
    seconds: float,
) -> bool:
    """Whether the tasks of a job, if there is one, copy in the round that they are at what is to be copied.

    In rounds of so many seconds, and shared well: no task brings much, and much more than if all were split once more.
    """
    if job is None:
        return True
    copied = [assignment for share in job.shares for assignment in share]
    best = _heaviest(split_by_load(copied, loads, tasks=len(job.shares)), loads)
    is_shared_well = _heaviest(job.shares, loads) <= max(_UNEVEN * best, _WORTH_SHARING)
    return job.seconds == seconds and _by_source(copied) == _by_source(assignments) and is_shared_well


def _by_source(assignments: Iterable[Assignment]) -> Mapping[tuple[str, int], Assignment]:
    return {assignment.source.key: assignment for assignment in assignments}


def _heaviest(shares: Sequence[Sequence[Assignment]], loads: Mapping[tuple[str, int], int]) -> int:
    return max((sum(_load(assignment, loads) for assignment in share) for share in shares), default=0)


def _load(assignment: Assignment, loads: Mapping[tuple[str, int], int]) -> int:
    """At least 1: partitions of which nothing came are spread as well."""
    return loads.get(assignment.source.key, 0) + 1
