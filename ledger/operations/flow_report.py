"""Where a flow stands, why, and what to do next: from rows of the ledger at one cut."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.requests import RECEIPT, OperatorRequest, Pauses, Receipt, RequestKind, pauses_after
from ledger.domain.writer_roles import LastClaim, ProcessMark, RoleVerdict
from ledger.mirror.stop_advice import command
from ledger.ports import FlowRequests

LAST_RECEIPTS = 5
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
class OpenFinding:
    """Something that needs attention while nothing stopped."""

    finding: str
    topic: str | None
    partition: int | None
    message: str
    next: str | None
    raised_at_ms: int


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow at one cut. `lag_records` adds up the partitions whose source end is known; the rest are counted."""

    flow: str
    driver: DriverReport
    lag_records: int
    unmeasured_partitions: int
    stopped: tuple[StoppedPartition, ...]
    paused: Pauses
    waiting: tuple[WaitingRequest, ...]
    findings: tuple[OpenFinding, ...]
    receipts: tuple[Receipt, ...]
    partitions: tuple[Row, ...]

    @property
    def needs_attention(self) -> list[str]:
        """Why `status --check` does not pass; empty when it does. Pauses are as somebody wanted them."""
        reasons = []
        if self.driver.state in (DriverState.DEAD, DriverState.SILENT):
            reasons.append(f"its driver is {self.driver.state}")
        if self.stopped:
            reasons.append(f"{len(self.stopped)} partitions stopped")
        if self.findings:
            reasons.append(f"{len(self.findings)} findings open")
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
    flow: str, *, driver: DriverReport, status_rows: Sequence[Row], operation_rows: Sequence[Row]
) -> FlowReport:
    """From the rows of the query `flow_status` and of `operations` in the order of recording."""
    requests = requests_of(operation_rows)
    lags = [row["lag_records"] for row in status_rows if row["source_end"] is not None]
    return FlowReport(
        flow=flow,
        driver=driver,
        lag_records=sum(lag for lag in lags if lag is not None),
        unmeasured_partitions=lags.count(None),
        stopped=tuple(_stopped(flow, row) for row in status_rows if row["stop_cause"] is not None),
        paused=pauses_after(requests.asked),
        waiting=tuple(_waiting(requests, operation_rows)),
        findings=tuple(_open_findings(operation_rows)),
        receipts=tuple(reversed(receipts_of(operation_rows)[-LAST_RECEIPTS:])),
        partitions=tuple(status_rows),
    )


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


def _waiting(requests: FlowRequests, operation_rows: Iterable[Row]) -> Iterator[WaitingRequest]:
    rows = {row["operation_id"]: row for row in operation_rows}
    for request in requests.waiting:
        yield _waiting_request(request, rows[request.operation_id])


def _waiting_request(request: OperatorRequest, row: Row) -> WaitingRequest:
    return WaitingRequest(
        operation_id=request.operation_id,
        kind=request.kind,
        topic=request.topic,
        partition=request.partition,
        offset=request.offset,
        operator=row["operator"],
        reason=row["reason"],
        ticket=row["ticket"],
        requested_at_ms=request.requested_at_ms,
    )


def _open_findings(operation_rows: Iterable[Row]) -> list[OpenFinding]:
    """Raised and not cleared since; a finding is told by its name, topic and partition."""
    left: dict[tuple[str, str | None, int | None], OpenFinding] = {}
    for row in operation_rows:
        if row["kind"] not in ("finding_raised", "finding_cleared"):
            continue
        content = json.loads(row["content"])
        key = (content["finding"], content["topic"], content["partition"])
        if row["kind"] == "finding_raised":
            left[key] = OpenFinding(*key, content["message"], content.get("next"), row["recorded_at_ms"])
        else:
            left.pop(key, None)
    return list(left.values())
