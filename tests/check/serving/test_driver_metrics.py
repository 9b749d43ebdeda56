"""What a driver exports: the figures of its last round, and what is so of its appends at the moment of asking."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

from ledger.config.values import Listen
from ledger.durations import BOUNDS_S, Durations
from ledger.errors import LedgerUnavailableError, PreconditionError, UsageError
from ledger.facts.roles import writer_of
from ledger.mirror.progress import Lag, RunProgress, RunSummary
from ledger.serving.driver_metrics import Certificates, DriverCollector, exported
from ledger.serving.server import bound
from ledger.store.append_durations import AppendDurations
from ledger.store.log import DeltaFactLog
from ledger.store.session import FLOW_TABLES, WriterSession
from tests.support.asked_pages import Samples, samples_of, value
from tests.support.commands import command
from tests.support.fakes import FakeClock
from tests.support.ledgers import claim_of
from tests.support.operated import FLOW, Operated
from tests.support.scraped import free_port, text_at
from tests.support.waiting import eventually


class Exported:
    """A driver's metrics as Prometheus reads them."""

    def __init__(self, flow: Operated) -> None:
        self.clock, self.appends = FakeClock(), AppendDurations()
        self.certificates = Certificates((), self.clock)
        self.collector = DriverCollector(flow.config.flow(FLOW), self.appends, self.certificates, self.clock)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self.collector)

    def samples(self) -> Samples:
        return samples_of(generate_latest(self.registry).decode())  # type: ignore[no-untyped-call]


@pytest.fixture
def exports(idle: Operated) -> Exported:
    return Exported(idle)


def progress(lag: Lag, *, latency: Durations | None = None) -> RunProgress:
    summary = RunSummary(
        rounds=3, records=70, bytes=900, raw_batches=5, record_path_batches=2, lost_offsets=4
    )
    return RunProgress(summary, lag, stopped=1, paused=2, stale_after_s=15.0, latency=latency or Durations())


def test_a_round_is_counted(exports: Exported) -> None:
    exports.collector.note(progress(Lag(offsets=9, partitions=3, behind_seconds=2.5, age_seconds=1.0)))
    samples = exports.samples()
    of_round = ("rounds", "copied_records", "copied_bytes", "lost_offsets")
    assert [value(samples, f"driver_{name}_total", flow=FLOW) for name in of_round] == [3, 70, 900, 4]
    assert value(samples, "driver_copied_batches_total", form="raw") == 5
    assert value(samples, "driver_copied_batches_total", form="reencoded") == 2
    assert value(samples, "driver_lag_offsets") == 9
    assert value(samples, "driver_lag_seconds") == 2.5
    partitions = {
        state: value(samples, "driver_partitions", state=state) for state in ("copying", "stopped", "paused")
    }
    assert partitions == {"copying": 3, "stopped": 1, "paused": 2}


@pytest.mark.parametrize("lag", [Lag(unknown=1), Lag(offsets=0, partitions=2, age_seconds=16.0)])
def test_a_lag_that_is_unknown_has_no_sample(exports: Exported, lag: Lag) -> None:
    exports.collector.note(progress(lag))
    samples = exports.samples()
    assert value(samples, "driver_lag_offsets") is None
    assert value(samples, "driver_lag_seconds") is None
    assert value(samples, "driver_rounds_total") == 3


def test_before_a_round_has_ended_nothing_is_said_of_any(exports: Exported) -> None:
    samples = exports.samples()
    assert value(samples, "driver_append_waits_seconds") == 0
    assert value(samples, "driver_rounds_total") is None
    assert value(samples, "driver_lag_offsets") is None


def test_latencies_are_a_histogram(exports: Exported) -> None:
    latency = Durations()
    for seconds in (0.004, 0.3, 1_000_000.0, -2.0):
        latency.add(seconds)
    exports.collector.note(progress(Lag(), latency=latency))
    samples = exports.samples()
    name = "driver_record_latency_seconds"
    assert value(samples, f"{name}_count") == 4
    assert value(samples, f"{name}_bucket", le="0.005") == 2, "what ended before it began took no time"
    assert value(samples, f"{name}_bucket", le=str(BOUNDS_S[-1])) == 3
    assert value(samples, f"{name}_sum") == pytest.approx(1_000_000.304)


def test_an_append_that_waits_is_seen_while_it_does(exports: Exported) -> None:
    with exports.appends.measured(exports.clock):
        exports.clock.now_s += 9
        with exports.appends.measured(exports.clock):
            exports.clock.now_s += 1
            assert value(exports.samples(), "driver_append_waits_seconds") == 10
    assert value(exports.samples(), "driver_append_waits_seconds") == 0
    assert value(exports.samples(), "driver_append_duration_seconds_sum") == 11
    with suppress(LedgerUnavailableError), exports.appends.measured(exports.clock):
        raise LedgerUnavailableError("no space left")
    assert value(exports.samples(), "driver_appends_failed_total") == 1
    assert value(exports.samples(), "driver_append_duration_seconds_count") == 2
    assert value(exports.samples(), "driver_append_waits_seconds") == 0


def test_the_ledgers_log_measures_its_appends(idle: Operated) -> None:
    times = AppendDurations()
    log = DeltaFactLog(idle.path, idle.clock, times)
    with WriterSession.claimed(log, writer_of(FLOW), FLOW_TABLES, claim_of(FLOW), after=None) as session:
        session.alive()
    assert dict(times.done.cumulated)[float("inf")] == 1


def test_certificates_say_until_when(exports: Exported) -> None:
    exports.certificates.until_ms["east", "broker", "east-1:9093"] = 1_900_000_000_000
    at = {"cluster": "east", "certificate": "broker", "address": "east-1:9093"}
    assert value(exports.samples(), "certificate_expiry_timestamp_seconds", **at) == 1_900_000_000


# Endpoint -----------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which somebody listens."""
    with bound(Listen("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_it_is_read_while_the_driver_runs(idle: Operated) -> None:
    listen = Listen("127.0.0.1", free_port())
    with exported(idle.config, {FLOW: AppendDurations()}, listen) as tells:
        tells[FLOW](progress(Lag()))
        assert "mirror_ledger_driver_copied_records_total" in text_at(f"http://{listen}/metrics")
    with pytest.raises(OSError, match="refused"):
        text_at(f"http://{listen}/metrics")


def test_who_asks_for_nothing_keeps_no_reader_away_and_takes_few_files(
    idle: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.serving.server._SILENT_S", 0.3)
    listen = Listen("127.0.0.1", free_port())
    with exported(idle.config, {FLOW: AppendDurations()}, listen), ExitStack() as silent:
        first = silent.enter_context(socket.create_connection((listen.host, listen.port), timeout=5))
        assert first.recv(1) == b"", "it has asked for nothing in time"
        monkeypatch.setattr("ledger.serving.server._SILENT_S", 60)
        held = [
            silent.enter_context(socket.create_connection((listen.host, listen.port), timeout=5))
            for _ in range(200)
        ]
        assert "mirror_ledger" in text_at(f"http://{listen}/metrics")
        eventually(lambda: len(select.select(held, [], [], 0)[0]) >= 130, "the server ends them")


def test_an_address_that_is_taken_is_an_error(idle: Operated, taken: str) -> None:
    with (
        pytest.raises(PreconditionError, match=f"nobody can listen at {taken}: .*; nothing was started"),
        exported(idle.config, {FLOW: AppendDurations()}, Listen.parse(taken)),
    ):
        pass
    done = command(idle.capture, idle.config, "serve", "--listen", taken)
    assert (done.code, done.out) == (PreconditionError.exit_code, "")


@pytest.mark.parametrize("address", ["0.0.0.0:9480", "nowhere"])
def test_a_driver_does_not_start_where_others_would_read(idle: Operated, address: str) -> None:
    done = command(idle.capture, idle.config, "run", FLOW, "--metrics", address)
    assert done.code == UsageError.exit_code
    assert "nothing was started" in done.err
