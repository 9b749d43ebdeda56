"""What a driver does as metrics of its own, while it runs: at `[metrics] listen`, whoever reads the ledger or not.

A driver that died, or that cannot write the ledger, is seen here within seconds: the ledger cannot tell of either.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.routing import Route

from ledger.clock import Clock, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import ClusterConfig, FlowConfig, Listen
from ledger.doctor.probes import ClusterProbe
from ledger.durations import Durations
from ledger.errors import MirrorLedgerError
from ledger.mirror.progress import RunProgress
from ledger.serving.metrics import PREFIX, Sample, answering, counter, gauge, seconds
from ledger.serving.server import bound, served_beside, token_of
from ledger.store.append_durations import AppendDurations

_CERTIFICATES_EVERY_S = 3_600.0
_CERTIFICATES_AGAIN_S = 60.0

Tell = Callable[[RunProgress], None]


def histogram(name: str, what: str, labels: dict[str, str], found: Durations) -> Metric:
    """Durations in seconds; its name begins with `PREFIX`."""
    family = HistogramMetricFamily(PREFIX + name, what, labels=list(labels))
    buckets = [
        ("+Inf" if bound == float("inf") else str(bound), float(number)) for bound, number in found.cumulated
    ]
    family.add_metric(list(labels.values()), buckets, found.sum_s)
    return family


# Certificates -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Certificates:
    """Until when those of brokers, and the mirror's own, are valid: read now and then in a thread of its own.

    One that could not be read has no time: that it cannot be reached is reported elsewhere.
    """

    clusters: Iterable[ClusterConfig]
    clock: Clock
    until_ms: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def read(self) -> bool:
        """Read all; returns whether none was missed."""
        found: dict[tuple[str, str, str], int] = {}
        is_whole = True
        for cluster in self.clusters:
            try:
                with closing(ClusterProbe(cluster, self.clock)) as probe:
                    if probe.uses_tls:
                        self._read(cluster, probe, found)
            except MirrorLedgerError:
                is_whole = False
        self.until_ms = found
        return is_whole

    def _read(
        self, cluster: ClusterConfig, probe: ClusterProbe, found: dict[tuple[str, str, str], int]
    ) -> None:
        own = probe.client_certificate()
        if own is not None:
            found[cluster.name, "client", ""] = own.not_after_ms
        for broker in probe.brokers():
            found[cluster.name, "broker", broker.address] = probe.certificate(broker.address).not_after_ms

    def work(self, ended: threading.Event) -> None:
        """Until it has ended."""
        while not ended.wait(_CERTIFICATES_EVERY_S if self.read() else _CERTIFICATES_AGAIN_S):
            pass


# Metrics ------------------------------------------------------------------------------------------


class DriverCollector(Collector):
    """What the last round said, none before the first one, and what is so at the moment of asking."""

    def __init__(
        self, flow: FlowConfig, appends: AppendDurations, certificates: Certificates, clock: Clock
    ) -> None:
        self._flow, self._appends, self._certificates, self._clock = flow, appends, certificates, clock
        self._began_ms = clock.now_ms()
        self._last: tuple[RunProgress, int] | None = None

    def note(self, progress: RunProgress) -> None:
        """What a round came to."""
        self._last = progress, self._clock.now_ms()

    def collect(self) -> Iterator[Metric]:
        flow = {"flow": self._flow.name, "source": self._flow.source, "target": self._flow.target}
        labels, values = tuple(flow), tuple(flow.values())
        one = partial(gauge, labels=labels)
        yield one(
            "driver_started_timestamp_seconds",
            "When this process began.",
            samples=[(values, seconds(self._began_ms))],
        )
        yield one(
            "driver_append_waits_seconds",
            "For how long the oldest append to the ledger has been under way, with all that is tried again.",
            samples=[(values, self._appends.waited_s(self._clock))],
        )
        yield counter(
            "driver_appends_failed",
            "Appends to the ledger that were given up.",
            labels,
            [(values, self._appends.failed)],
        )
        yield histogram(
            "driver_append_duration_seconds",
            "How long appends to the ledger took, of this process: of the flow and of its recorders.",
            flow,
            self._appends.done,
        )
        yield gauge(
            "certificate_expiry_timestamp_seconds",
            "Until when the certificate of a broker, or the mirror's own (client), is valid.",
            ("cluster", "certificate", "address"),
            [(of, seconds(until_ms)) for of, until_ms in self._certificates.until_ms.items()],
        )
        yield one(
            "driver_byte_rate_limit_bytes",
            "Bytes of batches that the flow reads in a second at most (`byte_rate`). Absent without a limit.",
            samples=[(values, self._flow.byte_rate)],
        )
        if self._last is not None:
            yield from _of_rounds(flow, *self._last)


def _of_rounds(flow: dict[str, str], progress: RunProgress, at_ms: int) -> Iterator[Metric]:
    labels, values = tuple(flow), tuple(flow.values())
    summary, lag = progress.summary, progress.lag
    yield gauge(
        "driver_round_timestamp_seconds",
        "When the last round ended: the lag of this process is as of then.",
        labels,
        [(values, seconds(at_ms))],
    )
    counts = (
        ("driver_rounds", "Rounds of this process.", summary.rounds),
        ("driver_copied_records", "Records that this process has copied.", summary.records),
        ("driver_copied_bytes", "Bytes of the batches that this process has copied.", summary.bytes),
        (
            "driver_recovered_records",
            "Of these, records that an earlier process had copied, and nobody had recorded.",
            summary.recovered_records,
        ),
        (
            "driver_lost_offsets",
            "Source offsets that were recorded as lost by this process.",
            summary.lost_offsets,
        ),
    )
    for name, what, number in counts:
        yield counter(name, what, labels, [(values, number)])
    yield counter(
        "driver_copied_batches",
        "Batches that this process has copied, by form: raw, as the bytes that they are, or reencoded.",
        (*labels, "form"),
        [((*values, "raw"), summary.raw_batches), ((*values, "reencoded"), summary.record_path_batches)],
    )
    known: list[Sample] = [(values, lag.offsets)] if progress.is_lag_known else []
    yield gauge(
        "driver_lag_offsets",
        "Source offsets that this process has not copied, of partitions that are being copied. Absent while unknown.",
        labels,
        known,
    )
    yield gauge(
        "driver_lag_seconds",
        "For how long at least something of these waits. Absent while unknown.",
        labels,
        [(values, (lag.behind_seconds if lag.offsets else 0.0) if progress.is_lag_known else None)],
    )
    partitions = (("copying", lag.partitions), ("unknown", lag.unknown), ("stopped", progress.stopped))
    yield gauge(
        "driver_partitions",
        "Partitions of this process, by what it does with them; unknown: it waits for the source to say its end.",
        (*labels, "state"),
        [((*values, state), number) for state, number in (*partitions, ("paused", progress.paused))],
    )
    yield histogram(
        "driver_record_latency_seconds",
        "From the time that the first record of a batch says to the acknowledgement by the target, of each batch.",
        flow,
        progress.latency,
    )


class TogetherCollector(Collector):
    """What several collectors say, as one: a metric that more than one has is there once, with all samples."""

    def __init__(self, collectors: Collection[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for metric in (metric for one in self._collectors for metric in one.collect()):
            known = found.setdefault(metric.name, metric)
            if known is not metric:
                known.samples += [sample for sample in metric.samples if sample not in known.samples]
        return found.values()


# Endpoint -----------------------------------------------------------------------------------------


@contextmanager
def exported(
    config: MirrorConfig,
    flows: Mapping[str, AppendDurations],
    listen: Listen,
    clock: Clock | None = None,
) -> Iterator[Mapping[str, Tell]]:
    """Metrics of runs for as long as the body takes; who runs a flow says after every round how far it is.

    Raises `PreconditionError` where nobody can listen at the address, and `UsageError` where the token cannot be read.
    """
    clock = clock or SystemClock()
    token = token_of(config.metrics.token)
    wanted = {name: config.flow(name) for name in flows}
    clusters = sorted({cluster for flow in wanted.values() for cluster in (flow.source, flow.target)})
    certificates = Certificates([config.cluster(name) for name in clusters], clock)
    collectors = {
        name: DriverCollector(flow, flows[name], certificates, clock) for name, flow in wanted.items()
    }
    ended = threading.Event()
    reading = threading.Thread(target=certificates.work, args=(ended,), name="certificates", daemon=True)
    application = Starlette(routes=[Route("/metrics", answering(TogetherCollector(collectors.values())))])
    with served_beside(application, bound(listen), token=token):
        reading.start()
        try:
            yield {name: collector.note for name, collector in collectors.items()}
        finally:
            ended.set()
