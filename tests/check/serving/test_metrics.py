"""The ledger as metrics: what is known has one sample, what is unknown has none, and is never 0."""

import shutil
import time
from pathlib import Path

import pytest

from ledger.store.heads import anchor_heads
from tests.support.asked_pages import OPEN_METRICS, Served, scraped, seen, value
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark

pytestmark = pytest.mark.long

LATER_MS = 3_600_000


def test_a_lag_that_is_known_is_in_records_bytes_and_seconds(flow: Operated) -> None:
    samples = scraped(flow.config)
    assert value(samples, "flow_lag_records", flow=FLOW, source="east", target="west") == 30
    assert value(samples, "flow_lag_bytes", flow=FLOW) == 300
    lag_s = value(samples, "flow_lag_seconds", flow=FLOW, bound="at_most")
    assert lag_s is not None
    assert 0 <= lag_s < 60
    assert value(samples, "topic_lag_records", topic="orders") == 30
    assert value(samples, "topic_lag_records", topic="payments") == 0
    assert value(samples, "flow_lag_unknown_partitions") == 0
    measured_s = value(samples, "flow_lag_measured_timestamp_seconds")
    assert measured_s is not None
    assert abs(measured_s - time.time()) < 60


def test_a_lag_that_nobody_knows_has_no_sample(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 100, ("payments", 0): 5})
    idle.watermark("payments", 0, end=5)
    samples = scraped(idle.config)
    for name in ("flow_lag_records", "flow_lag_bytes", "flow_lag_seconds"):
        assert value(samples, name) is None, name
    assert value(samples, "topic_lag_records", topic="orders") is None
    assert value(samples, "topic_lag_records", topic="payments") == 0, "of that one it is known"
    assert value(samples, "flow_lag_unknown_partitions") == 1


def test_nothing_is_said_of_a_flow_that_never_ran(idle: Operated) -> None:
    samples = scraped(idle.config)
    assert value(samples, "driver_alive", flow=FLOW) == 0
    assert value(samples, "driver_state", mirror_ledger_driver_state="never_ran") == 1
    for name in ("flow_lag_records", "flow_copied_records", "flow_copied_bytes_total", "objective_kept"):
        assert value(samples, name) is None, name
    assert value(samples, "cluster_recorded_timestamp_seconds", cluster="east", what="ends") is None


def test_what_was_copied_is_counted(flow: Operated) -> None:
    samples = scraped(flow.config)
    assert value(samples, "flow_copied_records") == 147
    assert value(samples, "flow_copied_batches_total", form="reencoded") == 0
    started, copied = 3, 3
    assert value(samples, "flow_copied_batches_total", form="raw") == 3 * (started + copied)
    assert value(samples, "flow_copied_bytes_total") == 1_000 * (started + copied)


def test_a_dead_driver_is_not_alive(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process())
    samples = scraped(idle.config)
    assert value(samples, "driver_alive") == 0
    assert value(samples, "driver_state", mirror_ledger_driver_state="dead") == 1
    assert value(samples, "flow_reasons_to_act") == 1


def test_stops_findings_and_losses_are_counted_by_cause(flow: Operated) -> None:
    flow.lost("orders", 0, 100, 110)
    flow.lost("orders", 0, 110, 125, cause="skipped")
    flow.stopped("orders", 0, "lost")
    flow.operation("finding_raised", {"finding": "sequence_unusual", "message": "seen"})
    samples = scraped(flow.config)
    assert value(samples, "flow_stopped_partitions", cause="lost") == 1
    assert value(samples, "flow_partitions", state="stopped") == 1
    assert value(samples, "flow_lost_offsets", kind="lost", cause="retention") == 10
    assert value(samples, "flow_lost_offsets", kind="lost", cause="skipped") == 15
    assert value(samples, "flow_open_findings", finding="sequence_unusual") == 1
    lost_s = value(samples, "flow_last_loss_timestamp_seconds")
    assert lost_s is not None
    assert abs(lost_s - time.time()) < 60


def test_what_a_dead_driver_had_copied_alarms_nobody_of_a_loss(flow: Operated) -> None:
    settled = {"kind": "unpaired", "cause": "lost_source", "target_end": 53, "records": 3}
    flow.append("offset_syncs", flow.lost_row("orders", 1, 50, 50, **settled))
    samples = scraped(flow.config)
    assert value(samples, "flow_unpaired_records", cause="lost_source") == 3
    assert value(samples, "flow_last_loss_timestamp_seconds") is None


def test_objectives_are_kept_or_not_or_nobody_knows(flow: Operated) -> None:
    file = Path(flow.config.file)
    limits = "[objectives]\nmax_lag_records = 29\nmax_lag_seconds = 3600\nmax_loss_seconds = 3600\n"
    file.write_text(file.read_text(encoding="utf-8") + limits, encoding="utf-8")
    served = Served.of(flow.config)
    samples = served.samples()
    assert value(samples, "objective_kept", objective="max_lag_records", flow=FLOW) == 0
    assert value(samples, "objective_kept", objective="max_lag_seconds", flow=FLOW) == 1
    assert value(samples, "objective_limit", objective="max_lag_records") == 29
    flow.copied({("later", 0): 1})
    assert value(scraped(flow.config), "objective_kept", objective="max_lag_seconds") is None


def test_a_ledger_that_cannot_be_read_any_more_leaves_no_old_figures(
    flow: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served.of(flow.config)
    assert value(served.samples(), "ledger_readable") == 1
    read_s = value(served.samples(), "ledger_read_timestamp_seconds")
    shutil.move(flow.path, f"{flow.path}-elsewhere")
    monkeypatch.setattr(served.reader.clock, "monotonic", lambda: time.monotonic() + 3_600)
    served.reader.read_due()
    samples = served.samples()
    assert value(samples, "ledger_readable") == 0
    assert value(samples, "flow_lag_records") == 30, "so it was a moment ago"
    now_ms = served.reader.clock.now_ms()
    monkeypatch.setattr(served.reader.clock, "now_ms", lambda: now_ms + LATER_MS)
    later = served.samples()
    assert value(later, "ledger_readable") == 0
    assert value(later, "ledger_read_timestamp_seconds") == read_s
    assert {name for name, _ in later} == {
        f"mirror_ledger_ledger_{of}" for of in ("readable", "read_timestamp_seconds", "read_duration_seconds")
    }


def test_before_the_first_read_nothing_is_known(flow: Operated) -> None:
    assert Served(flow.config).samples() == {}


def test_both_formats_of_prometheus_are_answered(flow: Operated) -> None:
    served = Served.of(flow.config)
    assert (
        served.page("/metrics", accept=OPEN_METRICS)
        .headers["content-type"]
        .startswith("application/openmetrics")
    )
    plain = served.page("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "# TYPE mirror_ledger_flow_copied_bytes_total counter" in plain.text


def test_an_anchor_says_when_heads_were_written_there(idle: Operated, tmp_path: Path) -> None:
    """Of an anchor that has none, is another ledger's or is none of the configuration's, there is no time."""
    written, readable = "anchor_written_timestamp_seconds", "anchor_readable"
    before = Served.of(idle.config)
    assert value(before.samples(), readable) is None
    assert "anchor" not in seen(before.page("/")).words
    file, place = Path(idle.config.file), tmp_path / "anchor"
    file.write_text(f'{file.read_text()}\n[evidence]\nanchor = "{place}"\n')
    empty = Served.of(idle.config)
    assert (value(empty.samples(), readable), value(empty.samples(), written)) == (0, None)
    assert "nobody knows when heads were last written to the anchor" in seen(empty.page("/")).words
    at_ms = int(time.time() * 1000) - LATER_MS - 60_000
    heads = anchor_heads(idle.config.ledger.path, str(place), now_ms=at_ms)
    late = Served.of(idle.config)
    assert (value(late.samples(), readable), value(late.samples(), written)) == (1, at_ms / 1000)
    assert "Nothing needs attention" not in seen(late.page("/")).words
    Path(heads).write_text(Path(heads).read_text().replace('"ledger_id": "', '"ledger_id": "another'))
    other = Served.of(idle.config)
    assert (value(other.samples(), readable), value(other.samples(), written)) == (0, None)
