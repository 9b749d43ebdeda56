"""Where a flow stands, as text for people: what is wrong first, with the command to type.

Long lines are folded under their label, commands are not: they are there to be copied.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from ledger.answers.drivers import DriverState
from ledger.answers.lag import Lag, LagState
from ledger.answers.status import OUTAGE_FINDINGS, FlowReport
from ledger.changeover.plans import ApplyState
from ledger.changeover.role import OpenApply
from ledger.plain_text import json_text
from ledger.words import counted, duration, instant, shell_word, shown, some_of

WIDTH = 80
_INDENT = 12
_INSEPARABLE = re.compile(
    r"\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?(?: ago\b)?|\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
)
_HELD_TOGETHER = "\u00a0"
"""Stands for a blank at which no line is to end."""
_SIZES = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000))


@dataclass(frozen=True, slots=True)
class Line:
    """A label and what it says; `next` in words and the commands to type, where there are."""

    label: str
    text: str
    next: str | None = None
    commands: tuple[str, ...] = ()

    def folded(self, width: int) -> Iterator[str]:
        yield from _folded(f"  {self.label:<10}", self.text, width)
        if self.next is not None:
            yield from _folded(" " * _INDENT, f"next: {self.next}", width)
        for command in self.commands:
            yield " " * _INDENT + shown(command)


def render_report(report: FlowReport, width: int = WIDTH) -> str:
    """A line for each reason to act beside the flow's name, then what else is so; what there is none of is left out."""
    reasons, remarks = report.needs_attention, report.remarks
    calm = [] if reasons and not remarks else ["; ".join(remarks) or "nothing needs attention"]
    lines = [
        line for said in (*reasons, *calm) for line in _folded(f"{report.flow}: ", said, width, indent=2)
    ]
    for line in report_lines(report):
        lines += line.folded(width)
    return "\n".join(lines) + "\n"


def report_lines(report: FlowReport) -> Iterator[Line]:
    """All that is so of a flow beside its reasons to act, in the order of a report."""
    return (line for section in _SECTIONS for line in section(report))


def render_open_apply(one: OpenApply, *, at_ms: int, width: int = WIDTH) -> str:
    """What stands before all flows: a change of direction that has begun and has not ended."""
    lines = _folded("", open_apply_title(one, at_ms=at_ms), width, indent=2)
    lines += [line for section in open_apply_lines(one, at_ms=at_ms) for line in section.folded(width)]
    return "\n".join(lines) + "\n"


def open_apply_title(one: OpenApply, *, at_ms: int) -> str:
    """How far it is, in a sentence."""
    if one.state == ApplyState.OPEN and not one.is_left:
        return f"{one.what} is {one.state_words(at_ms)}"
    state = "is being undone" if one.state == ApplyState.UNDOING else "has begun"
    return f"{one.what} {state}, and has not come to its end"


def open_apply_lines(one: OpenApply, *, at_ms: int) -> Iterator[Line]:
    """Who carries it out, how far it is, and what to type; `at_ms`: what ages are counted to."""
    why = f" ({one.reason})" if one.reason else ""
    begun = (
        f"{one.operation_id} of plan {one.plan_id}, begun {instant(one.begun_at_ms)} by {one.operator}{why}"
    )
    at_work = {
        True: "its process is at work",
        False: "nobody is at work on it",
        None: "perhaps it is at work",
    }
    last = f"{instant(one.last_recorded_at_ms)} ({duration((at_ms - one.last_recorded_at_ms) / 1000)} ago)"
    yield Line("operation", f"{begun}; {at_work[one.is_at_work]}, last recorded {last}")
    if one.step is not None:
        how = f" failed: {one.failed}" if one.failed is not None else f": {one.waits}" if one.waits else ""
        yield Line("step", f"{one.step}{how}")
    if one.so_far:
        yield Line("so far", ", ".join(one.so_far))
    if one.commands:
        act = "continue it, or take it back:" if one.commands[1:] else "continue it:"
        yield Line("next", act, None, one.commands)


def render_reports_json(reports: Sequence[FlowReport], open_apply: OpenApply | None = None) -> str:
    """An array with an object for each flow; `open_apply` of those that it is about."""
    return json_text([_jsonable(report, open_apply) for report in reports])


def _jsonable(report: FlowReport, open_apply: OpenApply | None) -> dict[str, object]:
    is_of_it = open_apply is not None and report.flow in open_apply.flows
    begun = {"open_apply": asdict(open_apply) if open_apply is not None and is_of_it else None}
    paused = {"whole_flow": report.paused.whole_flow, "topics": sorted(report.paused.topics)}
    said = {"needs_attention": report.needs_attention, "remarks": report.remarks}
    return {**asdict(report), "paused": paused, **said, **begun}


def _folded(label: str, text: str, width: int, *, indent: int = _INDENT) -> list[str]:
    """Words, instants and durations are never broken: one that is longer than the line stands out.

    Reasons, names and messages are of others: what is not printable of them is escaped.
    """
    lines = textwrap.wrap(
        _INSEPARABLE.sub(lambda found: found[0].replace(" ", _HELD_TOGETHER), shown(text)),
        width,
        initial_indent=label,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_HELD_TOGETHER, " ") for line in lines]


def _driver(report: FlowReport) -> Iterator[Line]:
    yield Line("driver", _driver_words(report))


def _driver_words(report: FlowReport) -> str:
    driver = report.driver
    where = f"process {driver.process} on host {driver.host}"
    if driver.starting_since_ms is not None:
        return f"starting since {_when(driver.starting_since_ms, report)}: {where}"
    if driver.state is DriverState.NEVER_RAN:
        return "has never run"
    assert driver.claimed_at_ms is not None
    assert driver.last_recorded_at_ms is not None
    last = _when(driver.last_recorded_at_ms, report)
    return f"{driver.state}: epoch {driver.epoch}, {where} since {instant(driver.claimed_at_ms)}; last recorded {last}"


def _lag(report: FlowReport) -> Iterator[Line]:
    if report.driver.state is not DriverState.NEVER_RAN or report.lag.partitions:
        limit = (
            "" if report.byte_rate is None else f"; at most {_size(report.byte_rate)} are read in a second"
        )
        yield Line("lag", lag_words(report.lag, report) + limit)


def lag_words(lag: Lag, report: FlowReport) -> str:
    """How far a flow is behind, in a line, and as of when."""
    if report.direction.gave_way:
        return "nothing is to be copied: all that it copies is promoted at the target"
    if not lag.partitions:
        is_over = lag.state is LagState.CAUGHT_UP
        return "no partition is left to copy" if is_over else "unknown, nothing is recorded yet"
    known = lag.partitions - lag.unknown_partitions
    if lag.state is not LagState.UNKNOWN:
        return f"{_lag_figures(lag)} in {counted(known, 'partition')}; {_measured(lag)}"
    if lag.last_known_at_ms is None:
        last = "never measured"
    else:
        records = counted(lag.last_known_records or 0, "record")
        last = f"last known {records} at {_when(lag.last_known_at_ms, report)}"
    if not known:
        return f"unknown, {last}"
    unknown = f"unknown of {lag.unknown_partitions:,} of {counted(lag.partitions, 'partition')}, {last}"
    return f"{unknown}; {_lag_figures(lag)} in the others, {_measured(lag)}"


def _lag_figures(lag: Lag) -> str:
    records = counted(lag.records or 0, "record")
    if lag.records_behind_transactions:
        since = "" if lag.open_since_ms is None else f", since {instant(lag.open_since_ms)}"
        records += f" ({lag.records_behind_transactions:,} more behind open transactions{since})"
    if lag.records == 0:
        return records
    size = "of unknown size" if lag.bytes is None else f"about {_size(lag.bytes)}"
    if lag.seconds is None:
        return f"{records}, {size}, for an unknown time"
    bound = "at most" if lag.seconds_bound == "at_most" else "at least"
    return f"{records}, {size}, for {bound} {duration(lag.seconds)}"


def _measured(lag: Lag) -> str:
    return f"measured {duration(lag.age_seconds or 0.0)} ago"


def _recordings(report: FlowReport) -> Iterator[Line]:
    for recording in report.recordings:
        groups = _age(recording.checkpoints_age_seconds)
        ends = _age(recording.ends_age_seconds)
        yield Line("recorded", f"{recording.side} {recording.cluster}: groups {groups}, ends {ends}")


def _drilled(report: FlowReport) -> Iterator[Line]:
    if (last := report.last_drill) is not None:
        yield Line("drilled", f"a failover, {_when(last.at_ms, report)}: {last.verdict}")


def _age(age_s: float | None) -> str:
    return "never" if age_s is None else f"{duration(age_s)} ago"


def _stopped(report: FlowReport) -> Iterator[Line]:
    for stopped in report.stopped:
        if report.direction.explains(stopped.topic, stopped.cause):
            continue
        since = instant(stopped.stopped_at_ms)
        yield Line(
            "stopped",
            f"{stopped.where}: {stopped.cause} since {since}: {stopped.seen}",
            stopped.next,
            stopped.commands,
        )


def _own_commits(report: FlowReport) -> Iterator[Line]:
    if groups := report.own_commits:
        which = f"--flow {shell_word(report.flow)} --group {shell_word(groups[0])}"
        yield Line(
            "groups",
            f"{counted(len(groups), 'group')} not synced, for what it has committed at the target is its own: "
            f"{some_of(groups, 'group')}",
            "nothing, where it reads there; else this lets it be synced from there on:",
            (f"mirror-ledger offsets set {which} --reason WHY",),
        )


def _held(report: FlowReport) -> Iterator[Line]:
    """Topics that stand still because the other direction holds, all of one reason in a line."""
    for label, topics in (("promoted", report.direction.promoted), ("waits", report.direction.waits)):
        stopped = [
            one
            for one in report.stopped
            if one.topic in topics and report.direction.explains(one.topic, one.cause)
        ]
        if topics:
            number = sum(len(one.partitions) for one in stopped)
            since = f" since {instant(min(one.stopped_at_ms for one in stopped))}" if stopped else ""
            still = f": {counted(number, 'partition')} stopped for that{since}" if number else ""
            advice = next((one.next for one in stopped), None) if report.needs_attention else None
            yield Line(label, f"{some_of(topics, 'topic')}{still}", advice)


def _deleted(report: FlowReport) -> Iterator[Line]:
    for deleted in report.gone:
        stopped = "" if deleted.stop_cause is None else f" while it was stopped ({deleted.stop_cause})"
        left = "an unknown number of" if deleted.uncopied_records is None else f"{deleted.uncopied_records:,}"
        yield Line(
            "gone",
            f"{_subject(deleted.topic, deleted.partition)}: its topic, id {deleted.topic_id}, ended at the source"
            f"{stopped}; {left} records were not copied",
        )


def _losses(report: FlowReport) -> Iterator[Line]:
    for loss in report.losses:
        counts = [(loss.source_offsets, "source offsets"), (loss.records, "records at the target")]
        what = " and ".join(f"{count:,} {of}" for count, of in counts if count)
        when = instant(loss.last_recorded_at_ms)
        if loss.is_settled:
            yield Line("settled", f"{what}, copied by a driver that died, not lost; last recorded {when}")
        else:
            yield Line("loss", f"{loss.kind}, {loss.cause}: {what or 'nothing'}, last recorded {when}")


def _paused(report: FlowReport) -> Iterator[Line]:
    for request in report.pausing:
        yield Line("paused", f"{request.subject}, {request.asked_in_words}")


def _waiting(report: FlowReport) -> Iterator[Line]:
    for request in report.waiting:
        offset = "" if request.offset is None else f", offset {request.offset}"
        why = "".join(f", {text}" for text in (request.reason, request.ticket) if text is not None)
        yield Line(
            "waiting",
            f"{request.kind} of {_subject(request.topic, request.partition)}{offset}, asked for by "
            f"{request.operator} {_when(request.requested_at_ms, report)}{why}; operation {request.operation_id}",
        )


def _findings(report: FlowReport) -> Iterator[Line]:
    for finding in sorted(report.findings, key=lambda found: found.finding not in OUTAGE_FINDINGS):
        where = _subject(finding.topic, finding.partition)
        since = instant(finding.open_since_ms)
        is_said_above = finding.message in {outage.message for outage in report.outages}
        message = "" if is_said_above else f": {finding.message}"
        yield Line("finding", f"{finding.finding} of {where} since {since}{message}", finding.next)


def _differences(report: FlowReport) -> Iterator[Line]:
    """A line for each cause, with the topics that have most of it; what is not about a topic counts alone."""
    by_cause: dict[tuple[str, str, str | None], list[tuple[int, str | None]]] = {}
    for one in report.differences or ():
        number = one.rows if one.offsets is None else one.offsets
        by_cause.setdefault((one.subject, one.status, one.cause), []).append((number, one.topic))
    for (subject, status, cause), found in by_cause.items():
        total = sum(number for number, _ in found)
        what = counted(total, "offset") if subject == "records" and status != "unknown" else f"{total:,}"
        most = sorted(found, key=lambda one: -one[0])
        topics = some_of([f"{topic} ({number:,})" for number, topic in most if topic is not None], "topic")
        why = "" if cause is None else f" ({cause})"
        yield Line("differs", f"{subject} {status}{why}: {what}{topics and f': {topics}'}")
    if report.differences == ():
        yield Line("differs", "nothing, as both clusters were read last")


def _fences(report: FlowReport) -> Iterator[Line]:
    for found in report.fences:
        yield Line("fence", f"{found.state} since {instant(found.since_ms)}: {found.message}", found.next)


def _receipts(report: FlowReport) -> Iterator[Line]:
    for receipt in report.receipts:
        where = _subject(receipt.topic, receipt.partition)
        yield Line(
            "receipt",
            f"{receipt.request_kind} of {where} {receipt.result} {_when(receipt.recorded_at_ms, report)}: "
            f"{receipt.message}; operation {receipt.request}",
        )


_SECTIONS = (
    *(_fences, _driver, _lag, _recordings, _own_commits, _drilled, _held, _stopped),
    *(_deleted, _losses, _paused, _waiting, _findings, _receipts, _differences),
)


def _subject(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return "the flow"
    return f"topic {topic}" if partition is None else f"{topic} partition {partition}"


def _when(at_ms: int, report: FlowReport) -> str:
    return f"{instant(at_ms)} ({duration((report.at_ms - at_ms) / 1000)} ago)"


def _size(number: int) -> str:
    for unit, size in _SIZES:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
