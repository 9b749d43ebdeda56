"""What Prometheus and Grafana are given: alerts, a dashboard and a document, all about metrics that are exported."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric

from tests.support.checkout import CHECKOUT
from tests.support.metric_families import exported
from tests.support.operated import Operated
from tests.support.scraped import promtool

ALERTS = CHECKOUT / "conf" / "prometheus" / "alerts.yaml"
DASHBOARD = CHECKOUT / "conf" / "grafana" / "mirror-ledger.json"
RUNBOOK = (CHECKOUT / "ledger" / "RUNBOOK.md").read_text(encoding="utf-8")
METRICS = (CHECKOUT / "ledger" / "METRICS.md").read_text(encoding="utf-8")
NAME = re.compile(r"mirror_ledger_[a-z_]+")
OF_HISTOGRAMS = ("_bucket", "_count", "_sum")

with_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")


@pytest.fixture
def known(idle: Operated) -> Mapping[str, Metric]:
    return exported(idle.config)


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))


def unknown(expression: str, known: Mapping[str, Metric]) -> list[str]:
    """Names in it that nothing exports; labels of a set of states are called as the metric is."""
    histograms = {
        f"{name}{end}" for name, one in known.items() if one.type == "histogram" for end in OF_HISTOGRAMS
    }
    return [name for name in NAME.findall(expression) if name not in known and name not in histograms]


def test_names_keep_to_conventions(known: Mapping[str, Metric]) -> None:
    for name, one in known.items():
        assert name.startswith("mirror_ledger_")
        assert name.endswith("_total") == (one.type == "counter"), name
        assert not re.search(r"_(ms|millis|kb|mb|minutes|hours|days|percent)(_|$)", name), name
        assert one.documentation.endswith("."), name
        if one.type == "histogram":
            assert name.endswith("_seconds"), name


def test_the_document_has_every_metric_as_it_is_explained(known: Mapping[str, Metric]) -> None:
    listed = re.findall(
        r"^- `(mirror_ledger_\w+)`(?: \([a-z, ]+\))?: ((?:.+\n)(?:  .+\n)*)", METRICS, re.MULTILINE
    )
    assert {name: " ".join(text.split()) for name, text in listed} == {
        name: one.documentation for name, one in known.items()
    }
    assert unknown(METRICS, known) == []


def test_alerts_and_panels_are_about_metrics_that_are_exported(known: Mapping[str, Metric]) -> None:
    asked = [*(rule["expr"] for rule in rules()), *expressions()]
    assert [name for one in asked for name in unknown(one, known)] == []
    assert len(asked) > 40


def test_every_alert_has_its_line_in_the_runbook() -> None:
    lines = re.findall(r"^- \*\*(MirrorLedger\w+)\.\*\* \S.+", RUNBOOK, re.MULTILINE)
    assert lines == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook"].endswith(f" {rule['alert']}")
        assert rule["labels"]["severity"] in ("critical", "warning")


@with_promtool
def test_prometheus_takes_the_alerts() -> None:
    promtool("check", "rules", str(ALERTS))


@with_promtool
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    text = (ALERTS.parent / "prometheus.yaml").read_text()
    (tmp_path / "token").write_text("secret")
    (tmp_path / "prometheus.yaml").write_text(
        text.replace("/run/secrets/reader-token", str(tmp_path / "token"))
    )
    shutil.copy(ALERTS, tmp_path)
    promtool("check", "config", str(tmp_path / "prometheus.yaml"))


@with_promtool
def test_prometheus_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    asked = [one.replace("$flow", ".*").replace("$__rate_interval", "1m") for one in expressions()]
    found = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(asked)]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": found}]}))
    promtool("check", "rules", str(file))


@with_promtool
def test_alerts_fire_by_what_they_are_about(tmp_path: Path) -> None:
    """Those that take long to bring about with a real mirror, and what must not fire beside them."""
    series = {
        'mirror_ledger_flow_broken_fences{flow="f",cluster="east",state="open"}': "0 0 1x30",
        'mirror_ledger_changeover_at_work{kind="failover",source="east",target="west",state="open"}': "1 1 0x30",
        'mirror_ledger_certificate_expiry_timestamp_seconds{cluster="east",certificate="broker"}': "864000x30",
        'mirror_ledger_certificate_expiry_timestamp_seconds{cluster="west",certificate="broker"}': "8640000x30",
        'mirror_ledger_driver_append_waits_seconds{flow="f"}': "0 0 9x30",
        'mirror_ledger_driver_state{flow="f",mirror_ledger_driver_state="silent"}': "0 0 1x30",
        'mirror_ledger_driver_state{flow="off",mirror_ledger_driver_state="silent"}': "0 0 1x30",
        'mirror_ledger_flow_enabled{flow="f"}': "1x30",
        'mirror_ledger_flow_enabled{flow="off"}': "0x30",
        'mirror_ledger_anchor_written_timestamp_seconds{instance="i"}': "-3590x30",
        'mirror_ledger_anchor_readable{instance="i"}': "1x30",
        'mirror_ledger_ledger_readable{instance="i"}': "1x30",
        'mirror_ledger_ledger_read_timestamp_seconds{instance="i"}': "0+5x30",
    }
    fired = (
        "FenceBroken",
        "ChangeoverHalfDone",
        "CertificateExpires",
        "LedgerNotWritable",
        "DriverSilent",
        "AnchorOld",
    )
    silent = (
        "LedgerNotReadable",
        "PartitionStopped",
        "RecordsLost",
        "ObjectiveMissed",
        "ClusterUnreachable",
        "AnchorUnknown",
    )
    labels = {
        "FenceBroken": {"flow": "f", "cluster": "east", "state": "open"},
        "ChangeoverHalfDone": {"kind": "failover", "source": "east", "target": "west", "state": "open"},
        "CertificateExpires": {"cluster": "east", "certificate": "broker"},
        "LedgerNotWritable": {"flow": "f"},
        "AnchorOld": {"instance": "i"},
        "DriverSilent": {"flow": "f", "mirror_ledger_driver_state": "silent"},
    }
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in rules()}

    def at(name: str) -> dict[str, Any]:
        alert = f"MirrorLedger{name}"
        expected = [{"exp_labels": {**labels[name], "severity": severities[alert]}}] if name in fired else []
        return {"eval_time": "15s", "alertname": alert, "exp_alerts": expected}

    annotations = {rule["alert"]: rule["annotations"] for rule in rules()}
    assert all("{{" in one["summary"] for one in annotations.values())
    bare = [{key: value for key, value in rule.items() if key != "annotations"} for rule in rules()]
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump({"groups": [{"name": "bare", "rules": bare}]}))
    tests = {
        "rule_files": ["bare.yaml"],
        "evaluation_interval": "5s",
        "tests": [
            {
                "interval": "5s",
                "input_series": [{"series": of, "values": values} for of, values in series.items()],
                "alert_rule_test": [at(name) for name in (*fired, *silent)],
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", str(tmp_path / "tests.yaml"))


# Dashboard ----------------------------------------------------------------------------------------


def test_panels_lie_beside_each_other_and_lag_is_first() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
    assert [panel["title"] for panel in panels()][:3] == ["Lag", "Lag in records", "Lag in time"]
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_panels_ask_the_chosen_source_and_say_unknown() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert variables == {"datasource", "flow"}
    for panel in panels():
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["noValue"] == "unknown"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) >= 1
