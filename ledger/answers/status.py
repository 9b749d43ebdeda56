"""The report of a flow, from the answers of queries at one cut."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from ledger.answers.direction import (
    DIRECTION_REPORT_KINDS,
    REPORT_KINDS,
    DirectionReport,
    FenceAttention,
    OneWay,
    direction_report,
    fences_needing_attention,
    shut_without_fence,
)
from ledger.answers.drivers import START_SECONDS, DriverReport, DriverState
from ledger.answers.lag import NO_LAG, Lag, LagState, Measurable, lag_columns, lag_of, named_lag_columns
from ledger.facts.drills import Drilled, LastDrill, last_drill
from ledger.facts.fences import FENCE_KINDS
from ledger.facts.findings import FindingName, Side
from ledger.facts.requests import (
    REQUEST_CLASSES,
    REQUEST_ROWS,
    FlowRequests,
    OperatorRequest,
    PartitionStatus,
    Pauses,
    Receipt,
    RequestKind,
    asked_in_words,
    pausing,
)
from ledger.facts.syncs import SyncCause, SyncKind
from ledger.facts.tables import Row
from ledger.facts.ways import Direction
from ledger.mirror.assignment import OF_DIRECTION, StopCause
from ledger.mirror.stops import StoppedEntry, StoppedPartition, advice, stopped_entries
from ledger.roles import FRESH_INTERVALS, LATE_AFTER_SWEEPS
from ledger.store.catalog import Named, query
from ledger.words import counted, duration, instant, some_of

# Outages ------------------------------------------------------------------------------------------
# Outages of a flow's clusters, from its open findings: what a report says first.


_SIDES: Mapping[str, Side] = {
    FindingName.SOURCE_UNREACHABLE: Side.SOURCE,
    FindingName.TARGET_UNREACHABLE: Side.TARGET,
    FindingName.SOURCE_THROTTLED: Side.SOURCE,
    FindingName.TARGET_THROTTLED: Side.TARGET,
}
OUTAGE_FINDINGS = frozenset(_SIDES)
_NO_REASONS = OUTAGE_FINDINGS | {FindingName.SOURCE_NOT_COMPARED}
"""An outage is a reason of its own to act, and there is nothing to do about a source that nobody has restored."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A cluster, or partitions of one topic of it, that do not answer, or hold back; for so many seconds so far."""

    finding: str
    side: str
    topic: str | None
    message: str
    since_ms: int
    seconds: float

    @property
    def words(self) -> str:
        """The message has what does not answer before its first colon, and why behind it."""
        what, colon, why = self.message.partition(": ")
        since = f"{instant(self.since_ms)}, {duration(self.seconds)} ago"
        return f"{self.side} {what} since {since}{colon}{why}"


def outages(finding_rows: Iterable[Row], *, at_ms: int) -> list[Outage]:
    """What the flow's driver sees, from the answer of `flow_findings`: whole clusters first, the longest first."""
    found = [
        _outage(row, _SIDES[row["finding"]], row["source_topic"], row["open_since_ms"], at_ms)
        for row in finding_rows
        if row["finding"] in OUTAGE_FINDINGS
    ]
    return sorted(found, key=lambda outage: (outage.topic is not None, outage.since_ms))


def recorders_outages(reach_rows: Iterable[Row], sides: Mapping[str, Side], *, at_ms: int) -> list[Outage]:
    """What recorders of the flow's clusters (alias to side) see, from the answer of `cluster_reach`."""
    return [
        _outage(row, sides[row["cluster"]], row["topic"], row["since_ms"], at_ms)
        for row in reach_rows
        if row["finding"] == FindingName.CLUSTER_UNREACHABLE
        and row["until_ms"] is None
        and row["cluster"] in sides
    ]


def _outage(row: Row, side: Side, topic: str | None, since_ms: int, at_ms: int) -> Outage:
    seconds = max(0.0, (at_ms - since_ms) / 1000)
    return Outage(row["finding"], str(side), topic, row["message"], since_ms, seconds)


# Flow report --------------------------------------------------------------------------------------
# Where a flow stands, why, and what to do next: what is reported, and what of it needs attention.


@dataclass(frozen=True, slots=True)
class StoppedPartitions(StoppedEntry):
    """Since when the first of the entry's partitions stands still."""

    stopped_at_ms: int


@dataclass(frozen=True, slots=True)
class DeletedPartition:
    """A partition of a topic that ended at the source before all of it was copied, or while it was stopped.

    `uncopied_records` None: how much the source had was never read. `stop_cause` None: it had not stopped.
    """

    topic: str
    topic_id: str
    partition: int
    stop_cause: str | None
    uncopied_records: int | None

    @property
    def is_worth_reporting(self) -> bool:
        return self.stop_cause is not None or self.uncopied_records != 0


@dataclass(frozen=True, slots=True)
class Loss:
    """What the flow lost, superseded or could not pair, by cause.

    `source_offsets`: of `lost` those that still count as lost, of `superseded` those that were superseded.
    """

    kind: str
    cause: str | None
    source_offsets: int
    records: int
    rows: int
    last_recorded_at_ms: int

    @property
    def is_settled(self) -> bool:
        """Whether it is no loss: a driver had copied it and not recorded it, and its source was not there to tell."""
        return self.cause == SyncCause.LOST_SOURCE


@dataclass(frozen=True, slots=True)
class Difference:
    """What of a topic is not the same at both sides for one cause: so many rows of the query `not_equal`.

    `topic` None: of groups of which nobody knows where they stand. `offsets`: how many the rows are about, None: they
    are not about records, or nobody knows.
    """

    subject: str
    status: str
    cause: str | None
    topic: str | None
    rows: int
    offsets: int | None


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request without a receipt."""

    operation_id: str
    kind: str
    topic: str | None
    partition: int | None
    offset: int | None
    operator: str
    reason: str | None
    ticket: str | None
    requested_at_ms: int


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request, and what a driver said to it."""

    request: str
    request_kind: str
    topic: str | None
    partition: int | None
    offset: int | None
    operator: str
    reason: str | None
    ticket: str | None
    requested_at_ms: int
    result: str
    message: str
    recorded_at_ms: int


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """Something that needs attention while nothing stopped."""

    finding: str
    topic: str | None
    partition: int | None
    message: str
    next: str | None
    open_since_ms: int
    raised_at_ms: int


@dataclass(frozen=True, slots=True)
class Recording:
    """How old the ledger's knowledge of a cluster is, None: never recorded.

    `is_late`: the flow's driver runs, and nobody seems to record the cluster. `unread_groups`: it runs, and why not one
    group of the cluster could be read; None: it could, or there may be none. `unread_since_restored`: that nobody has
    read its commits since the ledger was restored from a copy.
    """

    side: str
    cluster: str
    checkpoints_at_ms: int | None
    ends_at_ms: int | None
    checkpoints_age_seconds: float | None
    ends_age_seconds: float | None
    is_late: bool
    unread_groups: str | None = None
    unread_since_restored: str | None = None


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow at one cut.

    `at_ms` is what ages are counted to: now, or the time that was asked about. `partitions` are the rows of the query
    `flow_status`, each with the lag columns of `replication_lag`.
    `last_drill`: of a failover from its source to its target, None: nobody has recorded one.
    """

    flow: str
    enabled: bool
    at_ms: int
    driver: DriverReport
    outages: tuple[Outage, ...]
    lag: Lag
    stopped: tuple[StoppedPartitions, ...]
    gone: tuple[DeletedPartition, ...]
    losses: tuple[Loss, ...]
    pausing: tuple[OperatorRequest, ...]
    waiting: tuple[WaitingRequest, ...]
    findings: tuple[OpenFinding, ...]
    receipts: tuple[AnsweredRequest, ...]
    recordings: tuple[Recording, ...]
    fences: tuple[FenceAttention, ...]
    direction: DirectionReport
    partitions: tuple[Row, ...]
    own_commits: tuple[str, ...] = ()
    """Groups that `sync_groups` leaves out: they have commits of their own at the target."""
    last_drill: LastDrill | None = None
    byte_rate: int | None = None
    """Bytes of batches that it reads in a second at most; None: there is no limit."""
    differences: tuple[Difference, ...] | None = None
    """None: nobody asked what is not the same at both sides."""
    dead_addresses: tuple[str, ...] = ()

    @property
    def paused(self) -> Pauses:
        """What somebody paused; `pausing` has who and when."""
        return Pauses.by(self.pausing)

    @property
    def needs_attention(self) -> list[str]:
        """Why `status --check` does not pass, the gravest first; empty when it does.

        A disabled flow passes whatever it left behind, unless its driver runs all the same. A partition that stands
        still because the other direction holds passes; where all of them do for a promotion, no driver is needed. A
        driver that ended passes where nothing waits for it, or somebody wanted its end.
        """
        if not self.enabled:
            runs = self.driver.state is DriverState.RUNNING
            return [f"it is disabled, but its driver runs: mirror-ledger stop {self.flow}"] if runs else []
        reasons = [
            f"fence of {some_of(found.topics, 'topic')} at {found.cluster}: {found.state}"
            for found in self.fences
        ]
        reasons += [outage.words for outage in self.outages]
        reasons += self.direction.attention
        if not self.direction.gave_way:
            reasons += _driver_reasons(self.driver, self.at_ms)
            reasons += self._of_no_driver
        if alarming := [one for one in self.stopped if not self.direction.explains(one.topic, one.cause)]:
            first = min(stopped.stopped_at_ms for stopped in alarming)
            number = sum(len(stopped.partitions) for stopped in alarming)
            reasons.append(f"{counted(number, 'partition')} stopped since {instant(first)}")
        reasons += [_unrecorded(recording) for recording in self.recordings if recording.is_late]
        reasons += [
            f"no group of {recording.cluster} could be read: {recording.unread_groups}"
            for recording in self.recordings
            if recording.unread_groups is not None
        ]
        reasons += [one.unread_since_restored for one in self.recordings if one.unread_since_restored]
        if self._is_lag_overdue:
            reasons.append(unknown_lag(self.lag))
        if others := [found for found in self.findings if found.finding not in _NO_REASONS]:
            since = min(found.open_since_ms for found in others)
            reasons.append(f"{counted(len(others), 'finding')} open since {instant(since)}")
        return reasons

    @property
    def remarks(self) -> list[str]:
        """What is as somebody wanted it, or will pass, and yet is not a flow at work that keeps up."""
        remarks = [] if self.enabled else ["disabled by the configuration (enabled = false)"]
        remarks += self.direction.remarks
        if not self._of_no_driver:
            remarks += _driver_remarks(self.driver)
        if self.direction.gave_way:
            remarks += _driver_reasons(self.driver, self.at_ms)
        if self.driver.was_id_refused:
            remarks.append(
                "its target gave its producer id: what an application of another cluster writes with the same one "
                "counts as the mirror's, so it is not copied back, and may be taken for a repetition and lost"
            )
        remarks += self.dead_addresses
        if self.paused.whole_flow:
            remarks.append("the whole flow is paused")
        if topics := sorted(self.paused.topics):
            remarks.append(f"paused: {', '.join(topics)}")
        is_explained = self._is_lag_overdue or bool(self._of_no_driver)
        if self.lag.state is LagState.UNKNOWN and self.driver.state in _KNOWN and not is_explained:
            remarks.append(unknown_lag(self.lag))
        return remarks

    @property
    def _of_no_driver(self) -> list[str]:
        """That none is at work though there is something to do, and nobody wanted it so."""
        if not self.enabled or self.paused.whole_flow:
            return []
        run = f"mirror-ledger run {self.flow}"
        if self.driver.state is DriverState.NEVER_RAN and not self.direction.stands_by:
            return [f"it has never run: {run}"]
        is_away = self.driver.state is DriverState.RELEASED and not self.driver.is_meant_to_be_away
        is_said = self.direction.gave_way or self.direction.start is not None
        if not is_away or is_said or self.lag.state is LagState.CAUGHT_UP:
            return []
        assert self.driver.last_recorded_at_ms is not None, "it was released"
        ended = instant(self.driver.last_recorded_at_ms)
        return [f"its driver ended at {ended}, and {_waiting_words(self.lag)}: {run}"]

    @property
    def _is_lag_overdue(self) -> bool:
        """Whether somebody should have measured it; nobody has to where there is nothing left to copy."""
        is_expected = self.driver.state not in _ENDED and not self.direction.gave_way
        return is_expected and self.lag.overdue_partitions > 0


_ENDED = (DriverState.NEVER_RAN, DriverState.STARTING, DriverState.RELEASED)
"""States in which nobody measures, and nobody is expected to."""
_KNOWN = (DriverState.RELEASED, DriverState.CLAIMED, DriverState.RUNNING)


def _driver_reasons(driver: DriverReport, at_ms: int) -> list[str]:
    reasons = []
    if driver.failed_start_at_ms is not None:
        reasons.append(
            f"a start at {instant(driver.failed_start_at_ms)} ended before it claimed the flow: see what it printed"
        )
    if driver.state in (DriverState.DEAD, DriverState.SILENT):
        assert driver.last_recorded_at_ms is not None, "a claim is recorded"
        reasons.append(
            f"its driver is {driver.state}: nothing recorded since {instant(driver.last_recorded_at_ms)}"
        )
    if driver.starting_since_ms is not None and at_ms - driver.starting_since_ms >= START_SECONDS * 1000:
        reasons.append(
            f"its driver has been starting for {duration((at_ms - driver.starting_since_ms) / 1000)}"
        )
    return reasons


def _waiting_words(lag: Lag) -> str:
    """What nobody copies; 0 is said of none that is unknown."""
    if not lag.records:
        return "what waits for it is unknown"
    at_least = "" if lag.state is LagState.BEHIND else "at least "
    return f"{at_least}{counted(lag.records, 'record')} {'waits' if lag.records == 1 else 'wait'} for it"


def _driver_remarks(driver: DriverReport) -> list[str]:
    remarks = []
    if driver.state is DriverState.NEVER_RAN:
        remarks.append("has never run")
    if driver.state is DriverState.STARTING and driver.starting_since_ms is not None:
        remarks.append(f"starting since {instant(driver.starting_since_ms)}")
    if driver.state is DriverState.RELEASED and driver.last_recorded_at_ms is not None:
        remarks.append(f"ended at {instant(driver.last_recorded_at_ms)}")
    return remarks


def _unrecorded(recording: Recording) -> str:
    if recording.ends_at_ms is None:
        return f"nobody has recorded {recording.cluster}"
    return f"nobody records {recording.cluster} since {instant(recording.ends_at_ms)}"


def unknown_lag(lag: Lag) -> str:
    """That it is not known of all partitions or of some, and what was known last."""
    if not lag.partitions:
        return "lag is unknown: nothing is recorded yet"
    of = (
        ""
        if lag.unknown_partitions == lag.partitions
        else f" of {counted(lag.unknown_partitions, 'partition')}"
    )
    if lag.last_known_at_ms is None:
        return f"lag{of} is unknown: never measured"
    records = counted(lag.last_known_records or 0, "record")
    return f"lag{of} is unknown: last known {records} at {instant(lag.last_known_at_ms)}"


# Flow answers -------------------------------------------------------------------------------------


Made = TypeVar("Made", "WaitingRequest", "AnsweredRequest", "OpenFinding")
LAST_RECEIPTS = 5
QUERIES = (
    *("flow_status", "replication_lag", "flow_losses", "flow_findings", "flow_operations", "flow_recording"),
    "cluster_reach",
)
"""Where all but the driver's state comes from."""
DIFFERENCES = "not_equal"
"""Asked besides where somebody wants to know: it reads all that a flow has recorded."""
OPERATIONS_READ = tuple(dict.fromkeys((*REPORT_KINDS, *DIRECTION_REPORT_KINDS, Drilled.kind)))
"""Kinds of the rows of `operations` that are read besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the flow's configuration says: topics that it mirrors, how often clusters are recorded, their sides.

    `way`: where it goes, and what goes the other way. `unread_groups`: why the groups of a cluster could not be read,
    None: they could, as far as anybody knows; it is asked for where no commit was recorded. `topic_rows`: of `topics`,
    of both clusters. `own_commits`: groups that would be synced but for theirs.
    """

    way: OneWay
    interval_seconds: float
    full_sweep_seconds: float
    sides: Mapping[str, Side]
    unread_groups: Callable[[str], str | None] = lambda _cluster: None
    unread_since_restored: Callable[[str], str | None] = lambda _cluster: None
    topic_rows: Sequence[Row] = ()
    own_commits: Sequence[str] = ()
    byte_rate: int | None = None


def flow_report(
    flow: str,
    *,
    enabled: bool,
    driver: DriverReport,
    answers: Mapping[str, Sequence[Row]],
    operation_rows: Sequence[Row],
    at_ms: int,
    expected: Expected,
) -> FlowReport:
    """From the answers of `QUERIES` and perhaps `DIFFERENCES`, by name, and rows of `OPERATIONS_READ`.

    Ages are counted to `at_ms`.
    """
    findings = tuple(_of_row(OpenFinding, row) for row in answers["flow_findings"])
    measurable = Measurable(
        expected.way.is_mirrored,
        _out_of_reach(findings),
        since_ms=at_ms - int(FRESH_INTERVALS * expected.interval_seconds * 1000),
    )
    lags = {_incarnation(row): lag_columns(row, measurable) for row in answers["replication_lag"]}
    partitions = [{**row, **lags.get(_incarnation(row), NO_LAG)} for row in answers["flow_status"]]
    current = [row for row in partitions if row["status"] != PartitionStatus.GONE]
    deleted = [_deleted(row) for row in partitions if row["status"] == PartitionStatus.GONE]
    operations = [row for row in answers["flow_operations"] if row["status"] != "recorded"]
    pauses = tuple(pausing(_request(row) for row in operations))
    direction = direction_report(
        expected.way,
        driver,
        is_paused=Pauses.by(pauses).whole_flow,
        partitions=current,
        rows=_of(DIRECTION_REPORT_KINDS, operation_rows),
    )
    for row in current:
        if row["source_topic"] in direction.over and row["stop_cause"] in OF_DIRECTION:
            row |= {"status": PartitionStatus.RELEASED, "stop_cause": None, "stop_message": None}
    stopped = _stopped(flow, [row for row in current if row["stop_cause"] is not None])
    to_be_copied = replace(
        measurable,
        is_mirrored=lambda topic: measurable.is_mirrored(topic) and topic not in direction.promoted,
    )
    targets = {row["target_topic"] for row in current}

    def is_of_flow(cluster: str, topic: str) -> bool:
        is_source = expected.sides[cluster] is Side.SOURCE
        return expected.way.is_mirrored(topic) if is_source else topic in targets

    return FlowReport(
        flow=flow,
        enabled=enabled,
        at_ms=at_ms,
        driver=driver,
        outages=tuple(_outages(driver, answers, expected.sides, at_ms)),
        lag=lag_of(answers["replication_lag"], to_be_copied, at_ms=at_ms),
        stopped=tuple(_as_requests_are_granted(one, direction) for one in stopped),
        gone=tuple(one for one in deleted if one.is_worth_reporting),
        losses=tuple(_losses(answers["flow_losses"])),
        pausing=pauses,
        waiting=tuple(_of_row(WaitingRequest, row) for row in operations if row["result"] is None),
        findings=findings,
        receipts=tuple(_last_answered(operations)),
        recordings=tuple(_recording(row, driver, at_ms, expected) for row in answers["flow_recording"]),
        fences=(
            *fences_needing_attention(_of(REPORT_KINDS, operation_rows), expected.sides),
            *shut_without_fence(expected.topic_rows, _of(FENCE_KINDS, operation_rows), is_of_flow),
        ),
        direction=direction,
        partitions=tuple(partitions),
        own_commits=tuple(expected.own_commits),
        last_drill=last_drill(operation_rows, Direction(expected.way.source, expected.way.target)),
        byte_rate=expected.byte_rate,
        differences=_differences(answers[DIFFERENCES]) if DIFFERENCES in answers else None,
    )


def _differences(rows: Iterable[Row]) -> tuple[Difference, ...]:
    groups: dict[tuple[str, str, str | None, str | None], list[int | None]] = {}
    for row in rows:
        key = row["subject"], row["status"], row["cause"], row["source_topic"]
        groups.setdefault(key, []).append(row["offsets"])
    return tuple(
        Difference(*key, len(offsets), None if None in offsets else sum(filter(None, offsets)))
        for key, offsets in sorted(groups.items(), key=lambda group: [one or "" for one in group[0]])
    )


def _of(kinds: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] in kinds]


def partition_columns() -> list[Named]:
    """The columns of the rows in `FlowReport.partitions`."""
    return [*query("flow_status").columns, *named_lag_columns()]


def _incarnation(row: Row) -> tuple[str, str, int]:
    return row["source_topic"], row["source_topic_id"], row["source_partition"]


def _out_of_reach(findings: Iterable[OpenFinding]) -> Callable[[str], bool]:
    topics = {finding.topic for finding in findings if finding.finding == FindingName.SOURCE_UNREACHABLE}
    return lambda topic: None in topics or topic in topics


def _outages(
    driver: DriverReport, answers: Mapping[str, Sequence[Row]], sides: Mapping[str, Side], at_ms: int
) -> list[Outage]:
    """A driver at work checks itself; else what it saw last, and what recorders see."""
    own = outages(answers["flow_findings"], at_ms=at_ms)
    if driver.state is DriverState.RUNNING:
        return own
    reported = {outage.side for outage in own}
    seen = recorders_outages(answers["cluster_reach"], sides, at_ms=at_ms)
    return [*own, *(outage for outage in seen if outage.side not in reported)]


def _recording(row: Row, driver: DriverReport, at_ms: int, expected: Expected) -> Recording:
    checkpoints_age_s, ends_age_s = (_age_s(row[name], at_ms) for name in ("checkpoints_at_ms", "ends_at_ms"))
    waited_s = _age_s(driver.claimed_at_ms, at_ms) if ends_age_s is None else ends_age_s
    is_running = driver.state in (DriverState.RUNNING, DriverState.CLAIMED)
    is_late = (waited_s or 0.0) > FRESH_INTERVALS * expected.interval_seconds or (
        (checkpoints_age_s or 0.0) > LATE_AFTER_SWEEPS * expected.full_sweep_seconds
    )
    return Recording(
        side=row["side"],
        cluster=row["cluster"],
        checkpoints_at_ms=row["checkpoints_at_ms"],
        ends_at_ms=row["ends_at_ms"],
        checkpoints_age_seconds=checkpoints_age_s,
        ends_age_seconds=ends_age_s,
        is_late=is_late and is_running,
        unread_groups=expected.unread_groups(row["cluster"])
        if is_running and row["checkpoints_at_ms"] is None
        else None,
        unread_since_restored=expected.unread_since_restored(row["cluster"]),
    )


def _age_s(since_ms: int | None, at_ms: int) -> float | None:
    return None if since_ms is None else (at_ms - since_ms) / 1000


def requests_of(operation_rows: Iterable[Row]) -> FlowRequests:
    """What was asked of the flow that the rows are about."""
    return FlowRequests.of_rows([row for row in operation_rows if row["kind"] in REQUEST_ROWS])


def receipts_of(operation_rows: Iterable[Row]) -> list[Receipt]:
    """All receipts, the earliest first."""
    return [Receipt.of_row(row) for row in operation_rows if row["kind"] == Receipt.kind]


def _stopped(flow: str, rows: Sequence[Row]) -> list[StoppedPartitions]:
    since_ms: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["source_topic"], row["stop_cause"])
        since_ms[key] = min(row["stopped_at_ms"], since_ms.get(key, row["stopped_at_ms"]))
    partitions = [
        StoppedPartition(
            row["source_topic"],
            row["source_partition"],
            row["stop_cause"],
            row["stop_message"],
            row["stop_next"],
            has_copied=any(row[name] for name in ("records", "lost_offsets", "gap_offsets")),
        )
        for row in rows
    ]
    return [
        StoppedPartitions(**asdict(entry), stopped_at_ms=since_ms[entry.topic, entry.cause])
        for entry in stopped_entries(flow, partitions)
    ]


def _as_requests_are_granted(one: StoppedPartitions, direction: DirectionReport) -> StoppedPartitions:
    """No request moves what the other direction holds, whatever has stopped it before."""
    if one.topic in direction.promoted:
        return replace(one, next=advice(StopCause.PROMOTED), commands=())
    if one.topic in direction.waits:
        return replace(one, next=advice(StopCause.OPPOSITE_HOLDS), commands=())
    return one


def _deleted(row: Row) -> DeletedPartition:
    """Ends were read for the last time before the topic ended, so what is not copied is at least this."""
    had, copied = row["last_stable"], row["source_end"]
    return DeletedPartition(
        row["source_topic"],
        row["source_topic_id"],
        row["source_partition"],
        row["stop_cause"],
        None if had is None or copied is None else max(0, had - copied),
    )


def _losses(rows: Iterable[Row]) -> list[Loss]:
    """By kind and cause; what was copied again after a loss is none, nor what was paired after all."""
    groups: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        if _still_counts(row):
            groups.setdefault((row["kind"], row["cause"]), []).append(row)
    return [_loss(kind, cause, group) for (kind, cause), group in sorted(groups.items(), key=str)]


def _still_counts(row: Row) -> bool:
    if row["kind"] == SyncKind.LOST:
        return bool(row["held_offsets"])
    if row["kind"] == SyncKind.UNPAIRED:
        return bool(row["status"] != "superseded")
    return bool(row["cause"] != SyncCause.SETTLED)  # takes back what was recorded without the source


def _loss(kind: str, cause: str | None, rows: Sequence[Row]) -> Loss:
    counted = "held_offsets" if kind == SyncKind.LOST else "source_offsets"
    return Loss(
        kind,
        cause,
        source_offsets=sum(row[counted] for row in rows),
        records=sum(row["records"] for row in rows),
        rows=len(rows),
        last_recorded_at_ms=max(row["recorded_at_ms"] for row in rows),
    )


def _request(row: Row) -> OperatorRequest:
    return OperatorRequest(
        operation_id=row["operation_id"],
        asked=REQUEST_CLASSES[RequestKind(row["kind"])](**_coordinates(row)),
        asked_in_words=asked_in_words({**row, "recorded_at_ms": row["requested_at_ms"]}),
    )


def _last_answered(rows: Iterable[Row]) -> list[AnsweredRequest]:
    """The latest first."""
    answered = [row for row in rows if row["result"] is not None]
    latest_first = sorted(answered, key=lambda row: row["answered_at_ms"], reverse=True)
    return [
        _of_row(
            AnsweredRequest,
            row,
            request=row["operation_id"],
            request_kind=row["kind"],
            recorded_at_ms=row["answered_at_ms"],
        )
        for row in latest_first[:LAST_RECEIPTS]
    ]


def _of_row(made: type[Made], row: Row, **other_names: Any) -> Made:
    """Each field is the column of its name, or of that name at the source."""
    names = [one.name for one in fields(made) if one.name not in other_names]
    return made(**{name: row[name if name in row else f"source_{name}"] for name in names}, **other_names)


def _coordinates(row: Row) -> dict[str, Any]:
    return {name: row[f"source_{name}"] for name in ("topic", "partition", "offset")}
