"""Every metric that a driver and `serve` export: its name and what it says."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from ledger.answers.anchored import Anchored
from ledger.answers.flow_values import Status
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.mirror.progress import Lag, RunProgress, RunSummary
from ledger.serving.driver_metrics import Certificates, DriverCollector
from ledger.serving.metrics import LedgerCollector
from ledger.serving.reader import Read, Subject
from ledger.store.append_durations import AppendDurations


def families_of_driver(config: MirrorConfig) -> list[Metric]:
    """Of a driver that has ended a round."""
    clock = SystemClock()
    [flow] = config.flows.values()
    collector = DriverCollector(flow, AppendDurations(), Certificates((), clock), clock)
    collector.note(RunProgress(RunSummary(), Lag(), stopped=0, paused=0, stale_after_s=15.0))
    return list(collector.collect())


def families_of_ledger(config: MirrorConfig) -> list[Metric]:
    """Of a ledger that was read just now."""
    now_ms = SystemClock().now_ms()
    status = Subject("status", lambda ledger: ledger.status(), pause_s=1.0)
    groups = Subject("groups", lambda _ledger: (), pause_s=1.0)
    return list(
        LedgerCollector(
            config,
            lambda: Read(subject=status, value=Status((), ()), at_ms=now_ms, took_s=0.0),
            lambda: Read(subject=groups, value=(), at_ms=now_ms, took_s=0.0),
            lambda: Anchored(at_ms=now_ms),
            lambda: now_ms,
        ).collect()
    )


def exported(config: MirrorConfig) -> Mapping[str, Metric]:
    """By name as a query has it: counters end in `_total`."""
    return {
        name: family for family in _all(config) for name in [f"{family.name}{_ENDINGS.get(family.type, '')}"]
    }


_ENDINGS = {"counter": "_total"}


def _all(config: MirrorConfig) -> Iterator[Metric]:
    yield from families_of_driver(config)
    yield from families_of_ledger(config)
