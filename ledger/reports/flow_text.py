"""Where a flow stands, as text for people: what is wrong first, with the command to type."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from ledger.operations.flow_report import DriverReport, DriverState, FlowReport
from ledger.reports.tables import shown_time


def render_report(report: FlowReport) -> str:
    """Lines under the flow's name; what there is none of is left out."""
    lines = [f"{report.flow}: {'; '.join(report.needs_attention) or 'nothing needs attention'}"]
    for section in _SECTIONS:
        lines += [f"  {line}" for line in section(report)]
    return "\n".join(lines) + "\n"


def render_reports_json(reports: Sequence[FlowReport]) -> str:
    """An array with an object for each flow."""
    return json.dumps([_jsonable(report) for report in reports], indent=2, ensure_ascii=False) + "\n"


def _jsonable(report: FlowReport) -> dict[str, object]:
    paused = {"whole_flow": report.paused.whole_flow, "topics": sorted(report.paused.topics)}
    return {**asdict(report), "paused": paused, "needs_attention": report.needs_attention}


def _driver(report: FlowReport) -> Iterator[str]:
    driver = report.driver
    if driver.state is DriverState.NEVER_RAN:
        yield "driver    has never run"
        return
    yield f"driver    {driver.state}: {_who(driver)}"


def _who(driver: DriverReport) -> str:
    assert driver.claimed_at_ms is not None
    assert driver.last_recorded_at_ms is not None
    silent = f", {driver.silent_seconds:,.0f} s ago" if driver.silent_seconds is not None else ""
    return (
        f"epoch {driver.epoch}, process {driver.process} on host {driver.host} since {_time(driver.claimed_at_ms)}; "
        f"last recorded {_time(driver.last_recorded_at_ms)}{silent}"
    )


def _lag(report: FlowReport) -> Iterator[str]:
    if not report.partitions:
        return
    unmeasured = report.unmeasured_partitions
    unknown = f"; the source ends of {unmeasured} were never read" if unmeasured else ""
    yield f"lag       {report.lag_records:,} records in {len(report.partitions)} partitions{unknown}"


def _recordings(report: FlowReport) -> Iterator[str]:
    for recording in report.recordings:
        groups = _last(recording.checkpoints_at_ms, recording.checkpoints_age_seconds)
        ends = _last(recording.ends_at_ms, recording.ends_age_seconds)
        yield f"recorded  {recording.side} {recording.cluster}: groups {groups}, ends {ends}"


def _last(at_ms: int | None, age_s: float | None) -> str:
    if at_ms is None:
        return "never"
    return f"{_time(at_ms)}" if age_s is None else f"{age_s:,.0f} s ago"


def _stopped(report: FlowReport) -> Iterator[str]:
    for stopped in report.stopped:
        yield f"stopped   {_subject(stopped.topic, stopped.partition)}: {stopped.cause}: {stopped.message}"
        if stopped.next is not None:
            yield f"          next: {stopped.next}"
        if stopped.command is not None:
            yield f"          {stopped.command}"


def _gone(report: FlowReport) -> Iterator[str]:
    for gone in report.gone:
        stopped = "" if gone.stop_cause is None else f" while it was stopped ({gone.stop_cause})"
        left = "an unknown number of" if gone.uncopied_records is None else f"{gone.uncopied_records:,}"
        yield (
            f"gone      {_subject(gone.topic, gone.partition)}: its topic, id {gone.topic_id}, ended at the source"
            f"{stopped}; {left} records were not copied"
        )


def _losses(report: FlowReport) -> Iterator[str]:
    for loss in report.losses:
        counts = [(loss.source_offsets, "source offsets"), (loss.records, "records at the target")]
        what = " and ".join(f"{count:,} {of}" for count, of in counts if count)
        when = _time(loss.last_recorded_at_ms)
        yield f"loss      {loss.kind}, {loss.cause}: {what or 'nothing'}, last recorded {when}"


def _paused(report: FlowReport) -> Iterator[str]:
    if report.paused.whole_flow:
        yield "paused    the whole flow"
    for topic in sorted(report.paused.topics):
        yield f"paused    topic {topic}"


def _waiting(report: FlowReport) -> Iterator[str]:
    for request in report.waiting:
        offset = "" if request.offset is None else f", offset {request.offset}"
        why = "".join(f", {text}" for text in (request.reason, request.ticket) if text is not None)
        yield (
            f"waiting   {request.kind} of {_subject(request.topic, request.partition)}{offset}, asked for by "
            f"{request.operator} {_time(request.requested_at_ms)}{why}; operation {request.operation_id}"
        )


def _findings(report: FlowReport) -> Iterator[str]:
    for finding in report.findings:
        where = _subject(finding.topic, finding.partition)
        yield f"finding   {finding.finding} of {where}: {finding.message}"
        if finding.next is not None:
            yield f"          next: {finding.next}"


def _receipts(report: FlowReport) -> Iterator[str]:
    for receipt in report.receipts:
        where = _subject(receipt.topic, receipt.partition)
        yield (
            f"receipt   {receipt.request_kind} of {where} {receipt.result} {_time(receipt.recorded_at_ms)}: "
            f"{receipt.message}; operation {receipt.request}"
        )


_SECTIONS: tuple[Callable[[FlowReport], Iterator[str]], ...] = (
    *(_driver, _lag, _recordings, _stopped, _gone, _losses, _paused, _waiting, _findings, _receipts),
)


def _subject(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return "the flow"
    return f"topic {topic}" if partition is None else f"{topic} partition {partition}"


def _time(at_ms: int) -> str:
    return shown_time(at_ms)
