"""Wiring of what `status` and `query` answer: the ledger at a cut, the configuration, which processes are alive."""

from collections.abc import Collection, Mapping, Sequence

from ledger import catalog
from ledger.adapters.delta.snapshots import DeltaSnapshot, parse_time
from ledger.adapters.delta.upkeeps import table_upkeeps
from ledger.adapters.duck import engine
from ledger.adapters.process_table import LocalProcesses
from ledger.catalog import Query, Value
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.applies import APPLY_KINDS, Applies, recorded_plan
from ledger.domain.offsets.cut_offsets import CutSide
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.tables.table_upkeep import BEHIND_FILES
from ledger.domain.writer_roles import SILENT_HEARTBEATS, ProcessMark, writer_of
from ledger.errors import LedgerUnavailableError
from ledger.mirror.driver.take_over import driver_verdict
from ledger.mirror.task.troubles import Side
from ledger.operations import driver_report, flow_answers
from ledger.operations.changeover.applying import ALIVE_EVERY_S
from ledger.operations.changeover.open_apply import OpenApply
from ledger.operations.direction_report import OneWay, OppositeFlow, Place
from ledger.operations.driver_report import DriverReport
from ledger.operations.flow_answers import Expected
from ledger.operations.flow_lag import fresh_since_ms, interval_ms
from ledger.operations.flow_report import FlowReport, Row
from ledger.operations.groups.position_sheet import NOT_RECORDED, UNREAD_ADVICE
from ledger.recording.recorded_state import last_claim
from ledger.schema import CUT_OFFSETS, OPERATIONS, WRITERS

FRESH_SINCE = "fresh_since_ms"
"""A parameter of queries: what was measured before this time is unknown by now."""


def with_freshness(
    config: MirrorConfig, query: Query, params: Mapping[str, Value], *, at_ms: int
) -> dict[str, Value]:
    """The parameters, and since when measurements count at `at_ms` where the query asks and they do not say."""
    flow = config.flows.get(str(params.get("flow")))
    if flow is None or FRESH_SINCE not in query.parameter_names:
        return dict(params)
    return {FRESH_SINCE: fresh_since_ms(flow, at_ms), **params}


def report_flow(
    config: MirrorConfig, at: DeltaSnapshot, flow_name: str, *, at_ms: int, is_now: bool
) -> FlowReport:
    """Where a flow stands, why, and what to do next. Whether a driver is alive is only asked about now."""
    flow = config.flow(flow_name)
    queries = [catalog.query(name) for name in flow_answers.QUERIES]
    params: dict[str, Value] = {"flow": flow_name, FRESH_SINCE: fresh_since_ms(flow, at_ms)}
    tables = engine.run_queries(queries, params, at)
    answers = {name: table.to_pylist() for name, table in tables.items()}
    return flow_answers.flow_report(
        flow_name,
        enabled=flow.enabled,
        driver=driver_of(at, flow, answers["flow_status"], at_ms=at_ms, is_now=is_now),
        answers=answers,
        operation_rows=at.rows(OPERATIONS.name, [("kind", "in", flow_answers.OPERATIONS_READ)]),
        at_ms=at_ms,
        expected=Expected(
            way=_way(config, at, flow, at_ms=at_ms, is_now=is_now),
            interval_seconds=interval_ms(flow) / 1000,
            full_sweep_seconds=flow.full_sweep_seconds,
            sides={flow.source: Side.SOURCE, flow.target: Side.TARGET},
            unread_groups=lambda cluster: _unread_groups(at, cluster),
        ),
    )


def _way(config: MirrorConfig, at: DeltaSnapshot, flow: FlowConfig, *, at_ms: int, is_now: bool) -> OneWay:
    """Where a flow goes; the driver of the other way is asked about as its own."""
    opposite = None
    if flow.opposite is not None:
        other = config.flow(flow.opposite)

        def last_driver() -> DriverReport:
            appended = {"last_recorded_at_ms": at.last_recorded_at_ms(writer_of(other.name))}
            return driver_of(at, other, [appended], at_ms=at_ms, is_now=is_now)

        opposite = OppositeFlow(
            name=other.name,
            enabled=other.enabled,
            driver=last_driver,
            copied_to=lambda: _copied_to(at, other.name),
        )
    return OneWay(
        flow=flow.name,
        source=flow.source,
        target=flow.target,
        is_mirrored=config.topic_selection(flow.name).selects,
        opposite=opposite,
        begins_at=lambda operation_id: _can_begin_at(at, flow.name, operation_id),
    )


def _unread_groups(at: DeltaSnapshot, cluster: str) -> str | None:
    """Why nobody knows where the groups of a cluster stand; None: they were read, or nobody has recorded them yet."""
    found = engine.run_query(catalog.query("cluster_groups"), {"cluster": cluster}, at).to_pylist()
    why = {row["status"] for row in found} & (set(UNREAD_ADVICE) - {NOT_RECORDED})
    return "; ".join(f"{status.replace('_', ' ')}: {UNREAD_ADVICE[status]}" for status in sorted(why)) or None


def _copied_to(at: DeltaSnapshot, flow_name: str) -> Mapping[Place, int]:
    """By partition of its target up to where a flow has copied, as it has recorded."""
    rows = engine.run_query(catalog.query("flow_positions"), {"flow": flow_name}, at).to_pylist()
    return {
        (row["target_topic"], row["target_topic_id"], row["source_partition"]): row["target_end"]
        for row in rows
    }


def _can_begin_at(at: DeltaSnapshot, flow_name: str, operation_id: str) -> bool:
    """Whether a cut of the operation says for every partition of the flow where the way back begins."""
    rows = [
        row
        for row in at.rows(CUT_OFFSETS.name, [("operation_id", "=", operation_id), ("flow", "=", flow_name)])
        if row["side"] == CutSide.TARGET
    ]
    return bool(rows) and all(row["reverse_start"] is not None for row in rows)


def open_apply(at: DeltaSnapshot, *, at_ms: int, is_now: bool, flows: Collection[str]) -> OpenApply | None:
    """What has begun and not come to its end, of a plan for any of these flows, none: of any; None: nothing has."""
    rows = at.rows(OPERATIONS.name, [("kind", "in", (*APPLY_KINDS, OperationKind.APPLY_ALIVE))])
    one = Applies.of_rows(rows).open()
    if one is None:
        return None
    plan, _ = recorded_plan(at.rows(OPERATIONS.name, [("kind", "=", OperationKind.PLAN)]), one.plan_id)
    if flows and not set(flows) & set(plan.flows):
        return None
    last_ms = max(row["recorded_at_ms"] for row in rows if row["operation_id"] == one.operation_id)
    is_silent = at_ms - last_ms > SILENT_HEARTBEATS * ALIVE_EVERY_S * 1000
    mark, processes = ProcessMark.parse(one.host), LocalProcesses()
    is_beside = is_now and mark.is_beside(processes.own())
    is_at_work = processes.is_alive(mark) if is_beside else False if is_silent else None
    return OpenApply.of(plan, one, last_recorded_at_ms=last_ms, is_at_work=is_at_work)


def maintenance_behind(config: MirrorConfig) -> list[str]:
    """A line for each table that nobody seems to maintain, or of which that is unknown."""
    lines = []
    for upkeep in table_upkeeps(config.ledger):
        try:
            files, merges = upkeep.due()
        except LedgerUnavailableError as error:
            lines.append(f"whether maintenance of {upkeep.table} is behind is unknown: {error}")
            continue
        waiting = sum(len(merge.files) for merge in merges)
        if waiting >= BEHIND_FILES:
            lines.append(
                f"maintenance of {upkeep.table} is behind: {waiting:,} of {len(files):,} files wait to be merged; "
                "every answer opens them all. Run mirror-ledger maintain"
            )
    return lines


def asked_at_ms(at: DeltaSnapshot, as_of: str) -> int:
    """What ages are counted to: the time that is asked about, or when the last row of a cut was recorded."""
    at_ms = parse_time(as_of)
    return at.last_recorded_at_ms() if at_ms is None else at_ms


def driver_of(
    at: DeltaSnapshot,
    flow: FlowConfig,
    status_rows: Sequence[Row],
    *,
    at_ms: int,
    is_now: bool,
) -> DriverReport:
    """The flow's last driver; whether processes are alive is only asked about now."""
    writer, processes = writer_of(flow.name), LocalProcesses()
    rows = at.rows(WRITERS.name, [("writer", "=", writer)])
    appended = [row["last_recorded_at_ms"] or 0 for row in status_rows]
    claim = (
        last_claim(rows, last_recorded_at_ms=max(rows[-1]["recorded_at_ms"], *appended, 0)) if rows else None
    )
    verdict = driver_verdict(flow, claim, processes, now_ms=at_ms) if is_now else None
    driver = driver_report.driver_report(claim, verdict, at_ms=at_ms)
    told = at.rows(OPERATIONS.name, [("flow", "=", flow.name), ("kind", "in", driver_report.END_KINDS)])
    driver = driver_report.with_its_end(driver, told)
    starts = [row for row in told if row["kind"] == OperationKind.DRIVER_STARTING]
    start = driver_report.pending_start(starts, rows)
    if start is None:
        return driver
    mark = ProcessMark.parse(start.host)
    is_alive = processes.is_alive(mark) if is_now and mark.is_beside(processes.own()) else None
    return driver_report.with_start(driver, start, is_alive=is_alive, at_ms=at_ms)
