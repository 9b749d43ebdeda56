"""The report of a flow, from the answers of queries at one cut."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ledger.catalog import Named, query
from ledger.domain.facts import SyncCause, SyncKind
from ledger.domain.operations.receipts import Receipt
from ledger.domain.operations.requests import (
    REQUEST_CLASSES,
    REQUEST_ROWS,
    AskedBy,
    FlowRequests,
    OperatorRequest,
    Pauses,
    RequestKind,
    pausing,
)
from ledger.mirror.findings.finding_log import FindingName
from ledger.mirror.partitions.stop_advice import advice
from ledger.mirror.partitions.stopped_entries import StoppedPartition, stopped_entries
from ledger.mirror.requests.known_flow import PartitionStatus
from ledger.mirror.task.assignments import StopCause
from ledger.mirror.task.troubles import Side
from ledger.operations.direction_report import (
    DIRECTION_REPORT_KINDS,
    DirectionReport,
    OneWay,
    direction_report,
)
from ledger.operations.driver_report import DriverReport, DriverState
from ledger.operations.fencing.report import REPORT_KINDS, fences_needing_attention
from ledger.operations.flow_lag import (
    FRESH_INTERVALS,
    NO_LAG,
    Measurable,
    lag_columns,
    lag_of,
    named_lag_columns,
)
from ledger.operations.flow_report import (
    AnsweredRequest,
    FlowReport,
    GonePartition,
    Loss,
    OpenFinding,
    Recording,
    Row,
    StoppedPartitions,
    WaitingRequest,
)
from ledger.operations.outages import Outage, outages, recorders_outages

LAST_RECEIPTS = 5
LATE_AFTER_SWEEPS = 3
"""No commits recorded of a cluster for so many full sweeps, while the flow's driver runs: nobody records them."""
QUERIES = (
    *("flow_status", "replication_lag", "flow_losses", "flow_findings", "flow_operations", "flow_recording"),
    "cluster_reach",
)
"""Where all but the driver's state comes from."""
OPERATIONS_READ = tuple(dict.fromkeys((*REPORT_KINDS, *DIRECTION_REPORT_KINDS)))
"""Kinds of the rows of `operations` that are read besides."""

_AS_ASKED = ("operator", "reason", "ticket", "requested_at_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the flow's configuration says: topics that it mirrors, how often clusters are recorded, their sides.

    `way`: where it goes, and what goes the other way. `unread_groups`: why the groups of a cluster could not be read,
    None: they could, as far as anybody knows; it is asked for where no commit was recorded.
    """

    way: OneWay
    interval_seconds: float
    full_sweep_seconds: float
    sides: Mapping[str, Side]
    unread_groups: Callable[[str], str | None] = lambda _cluster: None


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
    """From the answers of `QUERIES`, by name, and rows of `OPERATIONS_READ`; ages are counted to `at_ms`."""
    findings = tuple(_finding(row) for row in answers["flow_findings"])
    measurable = Measurable(
        expected.way.is_mirrored,
        _out_of_reach(findings),
        since_ms=at_ms - int(FRESH_INTERVALS * expected.interval_seconds * 1000),
    )
    lags = {_incarnation(row): lag_columns(row, measurable) for row in answers["replication_lag"]}
    partitions = [{**row, **lags.get(_incarnation(row), NO_LAG)} for row in answers["flow_status"]]
    current, gone = _by_incarnation(partitions)
    operations = answers["flow_operations"]
    pauses = tuple(pausing(_request(row) for row in operations))
    direction = direction_report(
        expected.way,
        driver,
        is_paused=Pauses.by(pauses).whole_flow,
        partitions=current,
        rows=_of(DIRECTION_REPORT_KINDS, operation_rows),
    )
    stopped = _stopped(flow, [row for row in current if row["stop_cause"] is not None])
    to_be_copied = replace(
        measurable,
        is_mirrored=lambda topic: measurable.is_mirrored(topic) and topic not in direction.promoted,
    )
    return FlowReport(
        flow=flow,
        enabled=enabled,
        at_ms=at_ms,
        driver=driver,
        outages=tuple(_outages(driver, answers, expected.sides, at_ms)),
        lag=lag_of(answers["replication_lag"], to_be_copied, at_ms=at_ms),
        stopped=tuple(_as_requests_are_granted(one, direction) for one in stopped),
        gone=tuple(found for row in gone if (found := _gone(row)).is_worth_reporting),
        losses=tuple(_losses(answers["flow_losses"])),
        pausing=pauses,
        waiting=tuple(_waiting(row) for row in operations if row["result"] is None),
        findings=findings,
        receipts=tuple(_last_answered(operations)),
        recordings=tuple(_recording(row, driver, at_ms, expected) for row in answers["flow_recording"]),
        fences=tuple(fences_needing_attention(_of(REPORT_KINDS, operation_rows), expected.sides)),
        direction=direction,
        partitions=tuple(partitions),
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
        unread_groups=_unread_groups(row, expected) if is_running else None,
    )


def _unread_groups(row: Row, expected: Expected) -> str | None:
    """Why nobody knows what its groups have committed, where not one commit was ever read."""
    if row["checkpoints_at_ms"] is not None:
        return None
    return expected.unread_groups(row["cluster"])


def _age_s(since_ms: int | None, at_ms: int) -> float | None:
    return None if since_ms is None else (at_ms - since_ms) / 1000


def _by_incarnation(status_rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    current: list[Row] = []
    gone: list[Row] = []
    for row in status_rows:
        (gone if row["status"] == PartitionStatus.GONE else current).append(row)
    return current, gone


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


def _gone(row: Row) -> GonePartition:
    """Ends were read for the last time before the topic ended, so what is not copied is at least this."""
    had, copied = row["last_stable"], row["source_end"]
    return GonePartition(
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
    coordinates = {name: row[f"source_{name}"] for name in ("topic", "partition", "offset")}
    return OperatorRequest(
        operation_id=row["operation_id"],
        asked=REQUEST_CLASSES[RequestKind(row["kind"])](**coordinates),
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
