"""What pages show: words and figures of what was read last, for templates, which have no rules of their own."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ledger.answers.anchored import Anchored
from ledger.answers.drivers import DriverState
from ledger.answers.flow_values import Status
from ledger.answers.lag import Lag, LagState
from ledger.answers.status import FlowReport
from ledger.answers.text import Line, lag_words, open_apply_lines, open_apply_title, report_lines
from ledger.config.mirror import MirrorConfig
from ledger.serving.reader import Read
from ledger.words import counted, duration, instant, shown

NAVIGATION = (
    ("/", "Overview"),
    ("/groups", "Groups"),
    ("/changes", "Changes"),
    ("/history", "History"),
)
"""Address and title of each page that is none of a name."""
_KEY_BYTES = 6
_LATE_AFTER_S = 30
"""What is older is said to be of then."""
_TO_DO_AT_MOST = 10
"""Lines of one flow on the overview, which has all flows."""


def key_of(*names: str) -> str:
    """Stands for names in an address: addresses are kept in histories and logs, where names have no place."""
    text = "\0".join(names).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=_KEY_BYTES).hexdigest()


# Age ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Age:
    """As of when a page is. `is_old`: it tells nothing about now, `is_late`: about no moment ago; `why`: what keeps it
    from being newer."""

    words: str
    is_old: bool
    why: str | None = None
    is_late: bool = False

    @property
    def then(self) -> str:
        """What stands before a sentence that says that there is none of something."""
        return "As of then: " if self.is_late else ""


def age_of(read: Read[object], now_ms: int) -> Age:
    """Of what was read of a subject."""
    why = None if read.failure is None else shown(read.failure.words)
    if read.failure is not None:
        why = f"since {instant(read.failure.since_ms)} it cannot be read: {why}"
    if read.at_ms is None:
        return Age("the ledger has not been read yet", is_old=why is not None, why=why)
    ago_s = (now_ms - read.at_ms) // 1000
    words = f"as of {instant(read.at_ms)}, {duration(ago_s)} ago"
    return Age(words, read.fresh(now_ms) is None, why, is_late=ago_s > _LATE_AFTER_S)


# Attention ----------------------------------------------------------------------------------------


def _printable(line: Line) -> Line:
    """What is not printable of names and reasons is escaped: a page may not be led by them either."""
    said = None if line.next is None else shown(line.next)
    return Line(line.label, shown(line.text), said, tuple(map(shown, line.commands)))


@dataclass(frozen=True, slots=True)
class Concern:
    """What needs attention: of which flow (None: of the whole mirror), and why; `details`: with what to do about it."""

    of: str
    href: str | None
    reasons: tuple[str, ...]
    details: tuple[Line, ...] = ()
    left_out: str | None = None
    tone: str = "bad"  # or "run": it is under way, and nobody has to act


def concerns(status: Status, anchored: Anchored | None, *, now_ms: int) -> Iterator[Concern]:
    """The gravest first: a change of direction that has not ended, then flows by how much is wrong with them."""
    if (one := status.open_apply) is not None:
        lines = tuple(map(_printable, open_apply_lines(one, at_ms=status.at_ms)))
        title, tone = shown(open_apply_title(one, at_ms=status.at_ms)), "bad" if one.is_left else "run"
        yield Concern("change of direction", "/changes", (title,), lines, tone=tone)
    for report in sorted(status.flows, key=_gravity, reverse=True):
        if reasons := report.needs_attention:
            to_do = [_printable(line) for line in report_lines(report) if line.next or line.commands]
            shown_now, left = tuple(to_do[:_TO_DO_AT_MOST]), len(to_do) - _TO_DO_AT_MOST
            more = f"{counted(left, 'line')} more on the page of the flow" if left > 0 else None
            yield Concern(
                report.flow, f"/flows/{key_of(report.flow)}", tuple(map(shown, reasons)), shown_now, more
            )
    if status.objections:
        yield Concern("objectives", None, tuple(map(shown, status.objections)))
    of_ledger = [*status.maintenance]
    if anchored is not None and anchored.is_late(now_ms):
        of_ledger.append(anchored.words(now_ms))
    if of_ledger:
        yield Concern("ledger", None, tuple(map(shown, of_ledger)))


def _gravity(report: FlowReport) -> tuple[bool, bool, int]:
    return bool(report.fences), bool(report.outages), len(report.needs_attention)


# Overview -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flow between its clusters. `tone`: ok, warn, bad or off; `lag` in a word, `lag_words` in a sentence."""

    flow: str
    href: str
    source: str
    target: str
    state: str
    tone: str
    lag: str
    lag_words: str
    driver: str


@dataclass(frozen=True, slots=True)
class ClusterCard:
    """A cluster: since when nobody has recorded what of it, and whether it answers, as flows see it."""

    name: str
    ends: str
    commits: str
    outages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The first page."""

    concerns: tuple[Concern, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    clusters: tuple[ClusterCard, ...] = field(default=())
    anchored: str | None = None


def overview(config: MirrorConfig, status: Status, anchored: Anchored | None, *, now_ms: int) -> Overview:
    """Of all flows and clusters of the configuration, and of the ledger's anchor, None: there is none."""
    return Overview(
        tuple(concerns(status, anchored, now_ms=now_ms)),
        tuple(arrow(config, report) for report in status.flows),
        tuple(_clusters(config, status)),
        None if anchored is None else shown(anchored.words(now_ms)),
    )


def arrow(config: MirrorConfig, report: FlowReport) -> Arrow:
    """A flow as the overview has it."""
    flow = config.flow(report.flow)
    state, tone = state_of(report)
    return Arrow(
        flow=flow.name,
        href=f"/flows/{key_of(flow.name)}",
        source=flow.source,
        target=flow.target,
        state=state,
        tone=tone,
        lag=short_lag(report),
        lag_words=shown(lag_words(report.lag, report)),
        driver=str(report.driver.state).replace("_", " "),
    )


_CALM = {
    DriverState.RUNNING: ("mirroring", "ok"),
    DriverState.STARTING: ("starting", "warn"),
    DriverState.NEVER_RAN: ("never ran", "off"),
    DriverState.RELEASED: ("ended", "off"),
    DriverState.CLAIMED: ("claimed", "off"),
    DriverState.DEAD: ("driver dead", "bad"),
    DriverState.SILENT: ("driver silent", "bad"),
}


def state_of(report: FlowReport) -> tuple[str, str]:
    """In a word, and the tone of it."""
    if not report.enabled:
        return "disabled", "bad" if report.needs_attention else "off"
    if report.direction.gave_way:
        return "promoted", "bad" if report.needs_attention else "off"
    words, tone = _CALM[report.driver.state]
    if tone != "bad" and report.needs_attention:
        grave = report.outages or report.fences or report.stopped
        return (
            "outage" if report.outages else "stopped" if report.stopped else words
        ), "bad" if grave else "warn"
    if report.paused.whole_flow:
        return "paused", "warn"
    return words, tone


def short_lag(report: FlowReport) -> str:
    """In a few words: unknown is said to be so."""
    lag = report.lag
    if report.direction.gave_way:
        return "nothing to copy"
    if lag.state is LagState.UNKNOWN:
        return "lag unknown"
    if lag.state is LagState.CAUGHT_UP:
        return "caught up"
    return f"{counted(lag.records or 0, 'record')}{_for(lag)}"


def _for(lag: Lag) -> str:
    if lag.seconds is None:
        return ""
    return f", {'at most' if lag.seconds_bound == 'at_most' else 'at least'} {duration(lag.seconds)}"


def _clusters(config: MirrorConfig, status: Status) -> Iterator[ClusterCard]:
    for name in config.clusters:
        of_it = [one for report in status.flows for one in report.recordings if one.cluster == name]
        yield ClusterCard(
            name,
            ends=_last(status, (one.ends_at_ms for one in of_it)),
            commits=_last(status, (one.checkpoints_at_ms for one in of_it)),
            outages=tuple(_outages(config, status, name)),
        )


def _last(status: Status, found: Iterable[int | None]) -> str:
    known = [at_ms for at_ms in found if at_ms is not None]
    return f"{duration(max(0, status.at_ms - max(known)) // 1000)} ago" if known else "never"


def _outages(config: MirrorConfig, status: Status, cluster: str) -> Iterator[str]:
    said: dict[str, None] = {}
    for report in status.flows:
        flow = config.flow(report.flow)
        sides: Mapping[str, str] = {"source": flow.source, "target": flow.target}
        for outage in report.outages:
            if sides.get(outage.side) == cluster:
                said[shown(outage.words)] = None
    return iter(said)


def flow_report(status: Status, key: str) -> FlowReport | None:
    """The flow whose address has this key; None: there is none."""
    return next((report for report in status.flows if key_of(report.flow) == key), None)


# Flow ---------------------------------------------------------------------------------------------

MOST_PARTITIONS = 500


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition of a flow. Unknown is a word."""

    topic: str
    partition: int
    target: str
    state: str
    lag: str
    age: str
    records: str


@dataclass(frozen=True, slots=True)
class FlowPage:
    """All of a flow; `left_out`: how many partitions are in no line, those that are least behind."""

    arrow: Arrow
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    lines: tuple[Line, ...]
    partitions: tuple[PartitionLine, ...]
    left_out: int


def flow_page(config: MirrorConfig, report: FlowReport) -> FlowPage:
    """Of a flow as it was read last."""
    rows = sorted(report.partitions, key=_order)
    return FlowPage(
        arrow(config, report),
        tuple(map(shown, report.needs_attention)),
        tuple(map(shown, report.remarks)),
        tuple(map(_printable, report_lines(report))),
        tuple(_partition(row, report.at_ms) for row in rows[:MOST_PARTITIONS]),
        max(0, len(rows) - MOST_PARTITIONS),
    )


def _order(row: Mapping[str, object]) -> tuple[object, ...]:
    """What has stopped first, then what is most behind, the unknown before what is caught up."""
    lag = row["lag_records"]
    behind = -lag if isinstance(lag, int) else 0
    return (row["stop_cause"] is None, lag == 0, behind, row["source_topic"], row["source_partition"])


def _partition(row: Mapping[str, object], at_ms: int) -> PartitionLine:
    measured, lag, age_ms = row["measured_at_ms"], row["lag_records"], row["lag_ms"]
    state = str(row["status"]) if row["stop_cause"] is None else f"stopped: {row['stop_cause']}"
    waits = ""
    if isinstance(age_ms, int) and lag:
        waits = f", {str(row['lag_ms_bound']).replace('_', ' ')} {duration(age_ms / 1000)}"
    return PartitionLine(
        topic=shown(str(row["source_topic"])),
        partition=int(str(row["source_partition"])),
        target=shown(str(row["target_topic"])) if row["target_topic"] is not None else "not begun",
        state=state.replace("_", " "),
        lag=f"{lag:,}{waits}" if isinstance(lag, int) else "unknown",
        age=f"{duration(max(0, at_ms - measured) // 1000)} ago"
        if isinstance(measured, int)
        else "never measured",
        records=f"{row['records']:,}" if isinstance(row["records"], int) else "unknown",
    )
