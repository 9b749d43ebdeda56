"""The ledger as metrics for Prometheus: what was read last, in samples; what is unknown has no sample."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response

from ledger.answers.anchored import Anchored
from ledger.answers.drivers import DriverState
from ledger.answers.flow_values import Status
from ledger.answers.lag import LagState, LagStatus
from ledger.answers.status import FlowReport
from ledger.config.mirror import MirrorConfig
from ledger.config.values import objections
from ledger.facts.requests import PartitionStatus
from ledger.facts.syncs import SyncKind
from ledger.serving.groups import Way, counted_statuses, repeated_records, unread_groups
from ledger.serving.reader import Read

PREFIX = "mirror_ledger_"
MOST_TOPICS = 2_000
"""Of more topics of a flow there are no samples by topic: series that nobody can store are of no use."""
Labels: TypeAlias = Sequence[str]
Sample: TypeAlias = tuple[Labels, float | None]
"""Values of labels, and what is measured; None: unknown, so that there is no sample."""


def gauge(name: str, what: str, labels: Labels, samples: Iterable[Sample]) -> Metric:
    """A metric that can go up and down; its name begins with `PREFIX`."""
    return _filled(GaugeMetricFamily(PREFIX + name, what, labels=labels), samples)


def counter(name: str, what: str, labels: Labels, samples: Iterable[Sample]) -> Metric:
    """A metric that only goes up, until it begins again at 0; `name` without the ending `_total`."""
    return _filled(CounterMetricFamily(PREFIX + name, what, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Iterable[Sample]) -> Metric:
    for labels, value in samples:
        if value is not None:
            family.add_metric(list(labels), value)
    return family


def seconds(at_ms: float | None) -> float | None:
    """As Prometheus has times: seconds since the epoch."""
    return None if at_ms is None else at_ms / 1000


class LedgerCollector(Collector):
    """What `serve` answers at /metrics: each time from what was read last."""

    def __init__(
        self,
        config: MirrorConfig,
        status: Callable[[], Read[Status]],
        groups: Callable[[], Read[tuple[Way, ...]]],
        anchored: Callable[[], Anchored | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._config, self._now_ms = config, now_ms
        self._status, self._groups, self._anchored = status, groups, anchored

    def collect(self) -> Iterator[Metric]:
        read = self._status()
        yield from _of_reading(read)
        status = read.fresh(self._now_ms())
        if status is not None:
            yield from status_metrics(self._config, status)
        groups = self._groups()
        if (ways := groups.fresh(self._now_ms())) is not None:
            yield from group_metrics(ways, groups.at_ms)
        if (anchored := self._anchored()) is not None:
            yield from _of_the_anchor(anchored)


def answering(collector: Collector) -> Callable[[Request], Awaitable[Response]]:
    """What Prometheus scrapes, as OpenMetrics where it asks for that."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type})

    return metrics


def _of_reading(read: Read[Status]) -> Iterator[Metric]:
    readable = None if read.at_ms is None and read.failure is None else float(read.failure is None)
    yield gauge(
        "ledger_readable",
        "Whether the ledger could be read when it was tried last: 1 or 0.",
        (),
        [((), readable)],
    )
    yield gauge(
        "ledger_read_timestamp_seconds",
        "As of when all samples are that come from the ledger.",
        (),
        [((), seconds(read.at_ms))],
    )
    yield gauge("ledger_read_duration_seconds", "How long it took to read that.", (), [((), read.took_s)])


def _of_the_anchor(anchored: Anchored) -> Iterator[Metric]:
    yield gauge(
        "anchor_readable",
        "Whether heads of this ledger could be read at [evidence] anchor when it was tried last: 1 or 0. Absent: there "
        "is no anchor.",
        (),
        [((), float(anchored.at_ms is not None))],
    )
    yield gauge(
        "anchor_written_timestamp_seconds",
        "When heads were last written to [evidence] anchor, whoever wrote them. Absent while unknown.",
        (),
        [((), seconds(anchored.at_ms))],
    )


def group_metrics(ways: tuple[Way, ...], at_ms: int | None) -> Iterator[Metric]:
    """Of groups of each direction, which are read more rarely: as of `at_ms`."""
    labels = ("source", "target")
    yield gauge(
        "groups_read_timestamp_seconds",
        "As of when the samples of groups are that come from the ledger.",
        (),
        [((), seconds(at_ms))],
    )
    yield gauge(
        "group_partitions",
        "Partitions of groups of the source, by the status of where they would continue at the target.",
        (*labels, "status"),
        [((way.source, way.target, status), number) for way, status, number in counted_statuses(ways)],
    )
    yield gauge(
        "groups_unread",
        "Groups of which a recorder could not read what they have committed: hidden, for the mirror's principal is "
        "refused, or unavailable. Not 0 but absent where there may be groups that nobody was shown.",
        ("cluster", "status"),
        {
            (way.direction.source, status): number for way in ways for status, number in unread_groups(way)
        }.items(),
    )
    yield gauge(
        "flow_groups_synced",
        "Groups that have a commit at the target which the flow made and read back.",
        _FLOW,
        [
            ((flow, one.direction.source, one.direction.target), number)
            for one in ways
            for flow, number in one.synced
        ],
    )
    yield gauge(
        "groups_repeated_records",
        "Records that groups of the source would read again at the target. Absent while unknown of any.",
        labels,
        [((one.direction.source, one.direction.target), repeated_records(one)) for one in ways],
    )


_FLOW = ("flow", "source", "target")


def status_metrics(config: MirrorConfig, status: Status) -> Iterator[Metric]:
    """Of all flows, of objectives, and of a change of direction that is under way."""
    reports = [(_labels(config, report), report) for report in status.flows]
    yield from _lag(reports)
    yield from _copied(reports)
    yield from _troubles(reports)
    yield from _drivers(reports)
    yield from _groups(config, reports)
    yield from _recorders(reports)
    yield from _directions(reports)
    yield from _objectives(config, status)
    yield from _open_apply(status)
    behind = float(len(status.maintenance))
    yield gauge(
        "ledger_tables_behind", "Tables of the ledger that nobody seems to maintain.", (), [((), behind)]
    )


Reports: TypeAlias = Sequence[tuple[Labels, FlowReport]]


def _labels(config: MirrorConfig, report: FlowReport) -> Labels:
    flow = config.flow(report.flow)
    return (flow.name, flow.source, flow.target)


def _is_judged(report: FlowReport) -> bool:
    """Whether the flow has to keep up: one that gave way to a promotion copies nothing, and that is no lag."""
    return not report.direction.gave_way


def _lag(reports: Reports) -> Iterator[Metric]:
    known = [
        (labels, one) for labels, one in reports if one.lag.state is not LagState.UNKNOWN and _is_judged(one)
    ]
    yield gauge(
        "flow_lag_records",
        "Records at the source that are not recorded as copied. Absent while unknown of any partition.",
        _FLOW,
        [(labels, one.lag.records or 0) for labels, one in known],
    )
    yield gauge(
        "flow_lag_bytes",
        "About how many bytes these are.",
        _FLOW,
        [(labels, 0 if one.lag.records in (None, 0) else one.lag.bytes) for labels, one in known],
    )
    yield gauge(
        "flow_lag_seconds",
        "For how long the oldest of these has been at the source; bound says whether it is at_most or at_least that.",
        (*_FLOW, "bound"),
        [((*labels, one.lag.seconds_bound or "at_most"), _lag_seconds(one)) for labels, one in known],
    )
    yield gauge(
        "flow_lag_measured_timestamp_seconds",
        "When the ends of the source were read that lag is measured by: of the partition where that was first.",
        _FLOW,
        [(labels, seconds(one.lag.measured_at_ms)) for labels, one in reports],
    )
    yield gauge(
        "flow_lag_unknown_partitions",
        "Partitions of which nobody knows lately how far they are behind.",
        _FLOW,
        [(labels, one.lag.unknown_partitions) for labels, one in reports if _is_judged(one)],
    )
    yield gauge(
        "topic_lag_records",
        f"The same of a topic of the source, in flows of at most {MOST_TOPICS} topics.",
        (*_FLOW, "topic"),
        [((*labels, topic), lag) for labels, one in reports for topic, lag in _by_topic(one)],
    )


def _lag_seconds(report: FlowReport) -> float | None:
    return 0.0 if report.lag.state is LagState.CAUGHT_UP else report.lag.seconds


def _by_topic(report: FlowReport) -> Iterator[tuple[str, float | None]]:
    """None: unknown of one of its partitions."""
    found: dict[str, list[int | None]] = {}
    for row in report.partitions:
        if row["lag_status"] != LagStatus.GONE and row["status"] != PartitionStatus.GONE:
            found.setdefault(row["source_topic"], []).append(row["lag_records"])
    if len(found) > MOST_TOPICS:
        return
    for topic, lags in found.items():
        known = [lag for lag in lags if lag is not None]
        yield topic, float(sum(known)) if len(known) == len(lags) else None


def _sum(report: FlowReport, column: str) -> int:
    return sum(row[column] or 0 for row in report.partitions)


def _copied(reports: Reports) -> Iterator[Metric]:
    ran = [(labels, one) for labels, one in reports if one.driver.state is not DriverState.NEVER_RAN]
    yield gauge(
        "flow_copied_records",
        "Records at the target that are recorded as copied, and hold.",
        _FLOW,
        [(labels, _sum(one, "records")) for labels, one in ran],
    )
    yield counter(
        "flow_copied_bytes",
        "Bytes of the batches that were copied and recorded.",
        _FLOW,
        [(labels, _sum(one, "bytes")) for labels, one in ran],
    )
    yield counter(
        "flow_copied_batches",
        "Batches that were copied and recorded, by form: raw, as the bytes that they are, or reencoded.",
        (*_FLOW, "form"),
        [
            ((*labels, form), _sum(one, column))
            for labels, one in ran
            for form, column in (("raw", "raw_batches"), ("reencoded", "record_path_batches"))
        ],
    )
    yield gauge(
        "flow_partitions",
        "Partitions by what the flow does with them.",
        (*_FLOW, "state"),
        [
            ((*labels, state), number)
            for labels, one in reports
            for state, number in _counted(one, [str(state) for state in PartitionStatus])
        ],
    )


def _counted(report: FlowReport, states: Iterable[str]) -> Iterator[tuple[str, int]]:
    found = Counter(row["status"] for row in report.partitions)
    return ((state, found[state]) for state in states)


def _troubles(reports: Reports) -> Iterator[Metric]:
    yield gauge(
        "flow_reasons_to_act",
        "How many reasons there are for which `status --check` does not pass.",
        _FLOW,
        [(labels, len(one.needs_attention)) for labels, one in reports],
    )
    yield gauge(
        "flow_stopped_partitions",
        "Partitions that stopped by cause, and wait for a decision.",
        (*_FLOW, "cause"),
        [((*labels, cause), number) for labels, one in reports for cause, number in _stopped(one).items()],
    )
    yield gauge(
        "flow_open_findings",
        "Findings that are open.",
        (*_FLOW, "finding"),
        [
            ((*labels, finding), number)
            for labels, one in reports
            for finding, number in Counter(found.finding for found in one.findings).items()
        ],
    )
    yield gauge(
        "flow_outage_timestamp_seconds",
        "Since when a side of the flow does not answer, or holds back, by finding.",
        (*_FLOW, "side", "finding"),
        [
            ((*labels, side, finding), seconds(since_ms))
            for labels, one in reports
            for (side, finding), since_ms in _outages(one).items()
        ],
    )
    yield gauge(
        "flow_lost_offsets",
        "Source offsets that count as lost, or were superseded, by cause.",
        (*_FLOW, "kind", "cause"),
        [
            ((*labels, one.kind, one.cause or ""), one.source_offsets)
            for labels, report in reports
            for one in report.losses
            if one.kind != SyncKind.UNPAIRED
        ],
    )
    yield gauge(
        "flow_unpaired_records",
        "Records at the target of which nobody knows the source offset, by cause.",
        (*_FLOW, "cause"),
        [
            ((*labels, one.cause or ""), one.records)
            for labels, report in reports
            for one in report.losses
            if one.kind == SyncKind.UNPAIRED
        ],
    )
    yield gauge(
        "flow_last_loss_timestamp_seconds",
        "When the flow last recorded that something was lost, superseded or could not be paired.",
        _FLOW,
        [
            (labels, seconds(max(times, default=None)))
            for labels, report in reports
            for times in [[one.last_recorded_at_ms for one in report.losses if not one.is_settled]]
        ],
    )


def _stopped(report: FlowReport) -> Counter[str]:
    """Without those that stand still because the other direction holds: they are as they should be."""
    found: Counter[str] = Counter()
    for one in report.stopped:
        if not report.direction.explains(one.topic, one.cause):
            found[one.cause] += len(one.partitions)
    return found


def _outages(report: FlowReport) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for one in report.outages:
        key = (one.side, one.finding)
        found[key] = min(one.since_ms, found.get(key, one.since_ms))
    return found


def _drivers(reports: Reports) -> Iterator[Metric]:
    yield gauge(
        "driver_alive",
        "Whether the flow's driver is at work: 1 or 0. A driver elsewhere counts until it was silent for three "
        "heartbeats.",
        _FLOW,
        [
            (
                labels,
                None if one.driver.state is DriverState.CLAIMED else one.driver.state is DriverState.RUNNING,
            )
            for labels, one in reports
        ],
    )
    states = StateSetMetricFamily(
        PREFIX + "driver_state", "What is known of the flow's last driver.", labels=_FLOW
    )
    for labels, one in reports:
        states.add_metric(list(labels), {str(state): one.driver.state is state for state in DriverState})
    yield states
    yield gauge(
        "driver_recorded_timestamp_seconds",
        "When the flow's driver recorded something last.",
        _FLOW,
        [(labels, seconds(one.driver.last_recorded_at_ms)) for labels, one in reports],
    )
    yield gauge(
        "flow_enabled",
        "Whether the configuration lets the flow run: 1 or 0.",
        _FLOW,
        [(labels, one.enabled) for labels, one in reports],
    )


def _groups(config: MirrorConfig, reports: Reports) -> Iterator[Metric]:
    yield gauge(
        "flow_groups_not_synced",
        "Groups that the flow does not keep at its target, for they have commits of their own there.",
        _FLOW,
        [(labels, len(one.own_commits)) for labels, one in reports if config.flow(one.flow).sync_groups],
    )


def _recorders(reports: Reports) -> Iterator[Metric]:
    found = {
        (recording.cluster, what): at_ms
        for _, one in reports
        for recording in one.recordings
        for what, at_ms in (("commits", recording.checkpoints_at_ms), ("ends", recording.ends_at_ms))
    }
    yield gauge(
        "cluster_recorded_timestamp_seconds",
        "When ends of partitions, or commits of groups, of a cluster were recorded last.",
        ("cluster", "what"),
        [(labels, seconds(at_ms)) for labels, at_ms in found.items()],
    )


def _directions(reports: Reports) -> Iterator[Metric]:
    yield gauge(
        "flow_promoted_topics",
        "Topics whose target is promoted: applications write there, and the flow copies them no more.",
        _FLOW,
        [(labels, len(one.direction.promoted)) for labels, one in reports],
    )
    yield gauge(
        "flow_waiting_topics",
        "Topics of which the flow of the other direction holds.",
        _FLOW,
        [(labels, len(one.direction.waits)) for labels, one in reports],
    )
    yield gauge(
        "flow_gave_way",
        "Whether all that the flow copies is promoted, so that it needs no driver: 1 or 0.",
        _FLOW,
        [(labels, one.direction.gave_way) for labels, one in reports],
    )
    yield gauge(
        "flow_broken_fences",
        "Fences that do not keep applications out as they should, by what is wrong with them.",
        (*_FLOW, "cluster", "state"),
        [
            ((*labels, cluster, state), number)
            for labels, one in reports
            for (cluster, state), number in Counter(
                (found.cluster, str(found.state)) for found in one.fences
            ).items()
        ],
    )


def _objectives(config: MirrorConfig, status: Status) -> Iterator[Metric]:
    verdicts: list[Sample] = []
    for figure in status.figures:
        codes = [code for code, _ in objections(config.allowed, [figure])]
        kept = None if any(code.endswith("_unknown") for code in codes) else float(not codes)
        verdicts.append(((str(figure.objective), figure.of), kept))
    yield gauge(
        "objective_kept",
        "Whether a flow keeps to an objective of the configuration: 1 or 0. Absent while nobody knows.",
        ("objective", "flow"),
        verdicts,
    )
    yield gauge(
        "objective_limit",
        "What the configuration allows.",
        ("objective",),
        [((str(objective),), allowed) for objective, allowed in config.allowed.items()],
    )


def _open_apply(status: Status) -> Iterator[Metric]:
    one = status.open_apply
    labels = ("kind", "source", "target", "state")
    samples = [] if one is None else [((one.kind, one.from_cluster, one.to_cluster, one.state), one)]
    yield gauge(
        "changeover_begun_timestamp_seconds",
        "When a change of direction began that has not come to its end. Absent: there is none.",
        labels,
        [(values, seconds(one.begun_at_ms)) for values, one in samples],
    )
    yield gauge(
        "changeover_at_work",
        "Whether its process is at work: 1 or 0. Absent: nobody can tell, or there is none.",
        labels,
        [(values, one.is_at_work) for values, one in samples],
    )
