"""Where a flow stands, why, and what to do next: from the answers of queries at one cut."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.facts import SyncKind
from ledger.domain.recorded_operations import FlowRequests
from ledger.domain.requests import (
    RECEIPT,
    AskedBy,
    OperatorRequest,
    Pauses,
    Receipt,
    RequestKind,
    pauses_after,
)
from ledger.domain.writer_roles import LastClaim, ProcessMark, RoleVerdict
from ledger.mirror.stop_advice import command
from ledger.operations.outages import OUTAGE_FINDINGS, Outage, outages
from ledger.operations.requests import PartitionStatus

LAST_RECEIPTS = 5
LATE_AFTER_SWEEPS = 3
"""Nothing recorded of a cluster for so many full sweeps, while the flow's driver runs: nobody records it."""
QUERIES = ("flow_status", "flow_losses", "flow_findings", "flow_operations", "flow_recording")
"""Where all but the driver's state comes from."""

Row = Mapping[str, Any]


class DriverState(StrEnum):
    """What is known of a flow's last driver. The first that applies, in this order, is reported."""

    NEVER_RAN = "never_ran"
    RELEASED = "released"  # it ended properly
    CLAIMED = "claimed"  # as of a past cut, which does not tell whether the process lived
    DEAD = "dead"  # its process on this host is gone
    SILENT = "silent"  # it has recorded nothing for three heartbeats
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class DriverReport:
    """The flow's last driver; all but the state is None for a flow that never ran."""

    state: DriverState
    host: str | None = None
    process: int | None = None
    epoch: int | None = None
    claimed_at_ms: int | None = None
    last_recorded_at_ms: int | None = None
    silent_seconds: float | None = None


_AS_ASKED = ("operator", "reason", "ticket", "requested_at_ms")
NO_DRIVER = DriverReport(DriverState.NEVER_RAN)
_STATES = {
    None: DriverState.CLAIMED,
    RoleVerdict.HOLDER_DEAD: DriverState.DEAD,
    RoleVerdict.HOLDER_SILENT: DriverState.SILENT,
    RoleVerdict.IN_USE: DriverState.RUNNING,
}


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """`command` lets it go on; None when no single command does."""

    topic: str
    partition: int
    cause: str
    message: str
    next: str | None
    command: str | None


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


@dataclass(frozen=True, slots=True)
class Loss:
    """What the flow lost, took back or could not pair, by cause.

    `source_offsets`: of `lost` those that still count as lost, of `superseded` those that were taken back.
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
    """How old the ledger's knowledge of a cluster is; ages None: never recorded, or asked about the past."""

    side: str
    cluster: str
    checkpoints_at_ms: int | None
    ends_at_ms: int | None
    checkpoints_age_seconds: float | None
    ends_age_seconds: float | None
    is_late: bool


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow at one cut.

    `lag_records` adds up the partitions whose source end is known; the rest are counted. What is gone at the
    source is in neither.
    """

    flow: str
    enabled: bool
    driver: DriverReport
    outages: tuple[Outage, ...]
    lag_records: int
    unmeasured_partitions: int
    stopped: tuple[StoppedPartition, ...]
    gone: tuple[GonePartition, ...]
    losses: tuple[Loss, ...]
    paused: Pauses
    waiting: tuple[WaitingRequest, ...]
    findings: tuple[OpenFinding, ...]
    receipts: tuple[AnsweredRequest, ...]
    recordings: tuple[Recording, ...]
    partitions: tuple[Row, ...]

    @property
    def needs_attention(self) -> list[str]:
        """Why `status --check` does not pass; empty when it does. Pauses are as somebody wanted them.

        So is a disabled flow, whatever it left behind, unless its driver runs all the same.
        """
        if not self.enabled:
            runs = self.driver.state is DriverState.RUNNING
            return [f"it is disabled, but its driver runs: mirror-ledger stop {self.flow}"] if runs else []
        reasons = [outage.words for outage in self.outages]
        if self.driver.state in (DriverState.DEAD, DriverState.SILENT):
            reasons.append(f"its driver is {self.driver.state}")
        if self.stopped:
            reasons.append(f"{len(self.stopped)} partitions stopped")
        if others := [found for found in self.findings if found.finding not in OUTAGE_FINDINGS]:
            reasons.append(f"{len(others)} findings open")
        if late := [recording.cluster for recording in self.recordings if recording.is_late]:
            reasons.append(f"nobody records {', '.join(late)}")
        return reasons


def driver_report(claim: LastClaim, verdict: RoleVerdict | None, *, now_ms: int | None) -> DriverReport:
    """`verdict` and `now_ms` None: as of a past cut."""
    mark = ProcessMark.parse(claim.host)
    return DriverReport(
        state=DriverState.RELEASED if claim.released else _STATES[verdict],
        host=mark.host,
        process=mark.pid,
        epoch=claim.epoch,
        claimed_at_ms=claim.claimed_at_ms,
        last_recorded_at_ms=claim.last_recorded_at_ms,
        silent_seconds=None if now_ms is None else (now_ms - claim.last_recorded_at_ms) / 1000,
    )


def when_taken_up(flow: str, driver: DriverReport) -> str:
    """When a request that is recorded now is looked at."""
    if driver.state is DriverState.RUNNING:
        return f"the driver on {driver.host} takes it up after its round"
    if driver.state is DriverState.SILENT:
        return (
            f"the driver on {driver.host} has recorded nothing for {driver.silent_seconds:.0f} s; the request is "
            "taken up when it goes on, or at the next run"
        )
    return f"no driver of {flow} is running ({driver.state}); the request is taken up at the next run"


def flow_report(
    flow: str,
    *,
    enabled: bool,
    driver: DriverReport,
    answers: Mapping[str, Sequence[Row]],
    now_ms: int | None,
    full_sweep_seconds: float,
) -> FlowReport:
    """From the answers of `QUERIES`, by name; `now_ms` None: as of a past cut."""
    late_after_s = LATE_AFTER_SWEEPS * full_sweep_seconds
    living, gone = _by_life(answers["flow_status"])
    lags = [row["lag_records"] for row in living if row["source_end"] is not None]
    operations = answers["flow_operations"]
    return FlowReport(
        flow=flow,
        enabled=enabled,
        driver=driver,
        outages=tuple(outages(answers["flow_findings"], now_ms=now_ms)),
        lag_records=sum(lag for lag in lags if lag is not None),
        unmeasured_partitions=lags.count(None),
        stopped=tuple(_stopped(flow, row) for row in living if row["stop_cause"] is not None),
        gone=tuple(_gone(row) for row in gone if row["stop_cause"] is not None or row["lag_records"] != 0),
        losses=tuple(_losses(answers["flow_losses"])),
        paused=pauses_after(_request(row) for row in operations),
        waiting=tuple(_waiting(row) for row in operations if row["result"] is None),
        findings=tuple(_finding(row) for row in answers["flow_findings"]),
        receipts=tuple(_last_answered(operations)),
        recordings=tuple(_recording(row, driver, now_ms, late_after_s) for row in answers["flow_recording"]),
        partitions=tuple(answers["flow_status"]),
    )


def _recording(row: Row, driver: DriverReport, now_ms: int | None, late_after_s: float) -> Recording:
    checkpoints_age_s, ends_age_s = (
        _age_s(row[name], now_ms) for name in ("checkpoints_at_ms", "ends_at_ms")
    )
    waiting_s = _age_s(driver.claimed_at_ms, now_ms) if ends_age_s is None else ends_age_s
    ages = [age for age in (checkpoints_age_s, waiting_s) if age is not None]
    return Recording(
        side=row["side"],
        cluster=row["cluster"],
        checkpoints_at_ms=row["checkpoints_at_ms"],
        ends_at_ms=row["ends_at_ms"],
        checkpoints_age_seconds=checkpoints_age_s,
        ends_age_seconds=ends_age_s,
        is_late=driver.state is DriverState.RUNNING and max(ages, default=0.0) > late_after_s,
    )


def _age_s(at_ms: int | None, now_ms: int | None) -> float | None:
    return None if at_ms is None or now_ms is None else (now_ms - at_ms) / 1000


def _by_life(status_rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    living: list[Row] = []
    gone: list[Row] = []
    for row in status_rows:
        (gone if row["status"] == PartitionStatus.GONE else living).append(row)
    return living, gone


def requests_of(operation_rows: Iterable[Row]) -> FlowRequests:
    """What was asked of the flow that the rows are about."""
    kinds = {*RequestKind, RECEIPT}
    return FlowRequests.of_rows([row for row in operation_rows if row["kind"] in kinds])


def receipts_of(operation_rows: Iterable[Row]) -> list[Receipt]:
    """All receipts, the earliest first."""
    return [Receipt.of_row(row) for row in operation_rows if row["kind"] == RECEIPT]


def _stopped(flow: str, row: Row) -> StoppedPartition:
    topic, partition, cause = row["source_topic"], row["source_partition"], row["stop_cause"]
    return StoppedPartition(
        topic,
        partition,
        cause,
        row["stop_message"],
        row["stop_next"],
        command(cause, flow=flow, topic=topic, partition=partition),
    )


def _gone(row: Row) -> GonePartition:
    return GonePartition(
        row["source_topic"],
        row["source_topic_id"],
        row["source_partition"],
        row["stop_cause"],
        row["lag_records"],
    )


def _losses(rows: Iterable[Row]) -> list[Loss]:
    """By kind and cause; what was taken back of a loss is none."""
    groups: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        if row["kind"] != SyncKind.LOST or row["held_offsets"]:
            groups.setdefault((row["kind"], row["cause"]), []).append(row)
    return [_loss(kind, cause, group) for (kind, cause), group in sorted(groups.items(), key=str)]


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
        kind=RequestKind(row["kind"]),
        topic=row["source_topic"],
        partition=row["source_partition"],
        offset=row["source_offset"],
        requested_at_ms=row["requested_at_ms"],
        asked_by=AskedBy.of_row(row),
    )


def _waiting(row: Row) -> WaitingRequest:
    return WaitingRequest(row["operation_id"], row["kind"], **_asked(row))


def _last_answered(rows: Iterable[Row]) -> list[AnsweredRequest]:
    """The latest first."""
    answered = [row for row in rows if row["result"] is not None]
    latest_first = sorted(answered, key=lambda row: row["answered_at_ms"], reverse=True)
    return [
        AnsweredRequest(
            row["operation_id"],
            row["kind"],
            result=row["result"],
            message=row["message"],
            recorded_at_ms=row["answered_at_ms"],
            **_asked(row),
        )
        for row in latest_first[:LAST_RECEIPTS]
    ]


def _asked(row: Row) -> dict[str, Any]:
    coordinates = {name: row[f"source_{name}"] for name in ("topic", "partition", "offset")}
    return {**coordinates, **{name: row[name] for name in _AS_ASKED}}


def _finding(row: Row) -> OpenFinding:
    return OpenFinding(
        row["finding"],
        row["source_topic"],
        row["source_partition"],
        row["message"],
        row["next"],
        row["open_since_ms"],
        row["raised_at_ms"],
    )
