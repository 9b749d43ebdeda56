"""Where a flow stands, why, and what to do next: what is reported, and what of it needs attention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.domain.operations.requests import (
    OperatorRequest,
    Pauses,
)
from ledger.domain.words.count_words import counted, some_of
from ledger.domain.words.time_words import duration, instant
from ledger.mirror.partitions.stopped_entries import StoppedEntry
from ledger.operations.direction_report import DirectionReport
from ledger.operations.driver_report import START_SECONDS, DriverReport, DriverState
from ledger.operations.fencing.report import FenceAttention
from ledger.operations.flow_lag import (
    Lag,
    LagState,
)
from ledger.operations.outages import OUTAGE_FINDINGS, Outage

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoppedPartitions(StoppedEntry):
    """Since when the first of the entry's partitions stands still."""

    stopped_at_ms: int


@dataclass(frozen=True, slots=True)
class GonePartition:
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
    group of the cluster could be read; None: it could, or there may be none.
    """

    side: str
    cluster: str
    checkpoints_at_ms: int | None
    ends_at_ms: int | None
    checkpoints_age_seconds: float | None
    ends_age_seconds: float | None
    is_late: bool
    unread_groups: str | None = None


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow at one cut.

    `at_ms` is what ages are counted to: now, or the time that was asked about. `partitions` are the rows of the query
    `flow_status`, each with the lag columns of `replication_lag`.
    """

    flow: str
    enabled: bool
    at_ms: int
    driver: DriverReport
    outages: tuple[Outage, ...]
    lag: Lag
    stopped: tuple[StoppedPartitions, ...]
    gone: tuple[GonePartition, ...]
    losses: tuple[Loss, ...]
    pausing: tuple[OperatorRequest, ...]
    waiting: tuple[WaitingRequest, ...]
    findings: tuple[OpenFinding, ...]
    receipts: tuple[AnsweredRequest, ...]
    recordings: tuple[Recording, ...]
    fences: tuple[FenceAttention, ...]
    direction: DirectionReport
    partitions: tuple[Row, ...]

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
        if late := [recording for recording in self.recordings if recording.is_late]:
            reasons += [_unrecorded(recording) for recording in late]
        reasons += [
            f"no group of {recording.cluster} could be read: {recording.unread_groups}"
            for recording in self.recordings
            if recording.unread_groups is not None
        ]
        if self._is_lag_overdue:
            reasons.append(unknown_lag(self.lag))
        if others := [found for found in self.findings if found.finding not in OUTAGE_FINDINGS]:
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
        if self.paused.whole_flow:
            remarks.append("the whole flow is paused")
        if topics := sorted(self.paused.topics):
            remarks.append(f"paused: {', '.join(topics)}")
        is_told = self._is_lag_overdue or bool(self._of_no_driver)
        if self.lag.state is LagState.UNKNOWN and self.driver.state in _KNOWN and not is_told:
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
        if not is_away or self.direction.gave_way or self.lag.state is LagState.CAUGHT_UP:
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
