"""`doctor` where clusters and the ledger are not there: one row a cause, each thing told once, nothing told as fine."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from ledger.doctor.checks import Check
from tests.support.commands import Done, mirror_ledger
from tests.support.config_files import write_config
from tests.support.operated import FLOW, Operated

REFUSED = "[Errno 111] Connection refused"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two clusters at a port where nobody listens, and no ledger."""
    nobody = {"east": "127.0.0.1:9", "west": "127.0.0.1:9"}
    return Path(write_config(tmp_path, nobody, {"f": 'topics = [".*"]'}).file)


def doctor(capture: pytest.CaptureFixture[str], file: Path, *options: str) -> Done:
    return mirror_ledger(capture, "--config", str(file), "doctor", *options)


def test_one_cause_is_one_row_and_nothing_is_told_twice(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = doctor(capsys, file, "-o", "json")
    assert done.code == 4
    rows = {(row["subject"], row["check"]): row for row in json.loads(done.out)}
    bad = [key for key, row in rows.items() if row["verdict"] in ("failed", "unknown")]
    assert bad == [
        ("ledger", Check.LEDGER_TABLES),
        ("cluster east", Check.BOOTSTRAP_ADDRESS),
        ("cluster west", Check.BOOTSTRAP_ADDRESS),
    ]
    east = rows["cluster east", Check.BOOTSTRAP_ADDRESS]
    assert REFUSED in east["measured"]
    assert "start the broker" in east["advice"]
    assert {"subject": "flow f", "check": Check.SELECTED_TOPICS.value} in east["not_made"]
    assert {"subject": "cluster east", "check": Check.CLUSTER_IDENTITY.value} in east["not_made"]
    assert REFUSED not in done.err
    not_made = sum(len(row["not_made"]) for row in rows.values())
    assert (
        f"{len(rows) + not_made} checks: 3 failed, 0 unknown, {not_made} unknown because of them" in done.err
    )
    assert len(done.err.splitlines()) == 1


def test_the_table_fits_a_narrow_terminal(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = doctor(capsys, file).out.splitlines()
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines), "but for a path that is longer"
    assert lines[0] == "failed   ledger: ledger_tables"
    text = " ".join(" ".join(lines).split())
    assert re.search(
        r"\d+ other checks of cluster east and \d+ of flow f could not be made because of it", text
    )
    verdicts = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert verdicts == sorted(verdicts, key=["failed", "unknown", "warning", "skipped", "ok"].index)


def test_only_filters_what_is_printed_and_not_the_exit_code(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = json.loads(doctor(capsys, file, "-o", "json").out)
    done = doctor(capsys, file, "--only", "ok,skipped", "--only", "warning", "-o", "csv")
    shown = list(csv.DictReader(io.StringIO(done.out)))
    assert done.code == 4
    assert {row["verdict"] for row in shown} == {"ok", "skipped"}
    assert f"; {len(every) - len(shown)} rows are not shown" in done.err
    bad = doctor(capsys, file, "--only", "failed", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(bad.out)))
    assert [row["verdict"] for row in rows] == ["failed"] * 3
    assert all(json.loads(row["not_made"]) for row in rows)


def test_a_clock_that_was_set_back_is_told_with_both_times(idle: Operated) -> None:
    """And between the two what was recorded later does not count."""
    now_ms = idle.clock.now_ms()
    idle.copied({("orders", 0): 100}, at_ms=now_ms - 60_000)
    idle.copied({("orders", 0): 200}, at_ms=now_ms)
    idle.copied({("orders", 0): 300}, at_ms=now_ms - 30_000)
    rows = {row["check"]: row for row in json.loads(idle.command("doctor", "-o", "json").out)}
    found = rows[Check.LEDGER_CLOCKS]
    assert found["verdict"] == "warning"
    assert f"offset_syncs, flow:{FLOW} epoch 1 round 3: " in found["measured"]
    assert ", 30 s before its append before" in found["measured"]
    ends = ("sql", "select max(source_end) as n from offset_syncs", "-o", "csv", "--as-of")
    assert idle.command(*ends, str(now_ms - 1)).out == "n\n100\n"
    assert idle.command(*ends, str(now_ms)).out == "n\n300\n"


@pytest.mark.parametrize(
    ("options", "telling"),
    [
        (("--only", "failed,bad"), "got 'bad'; nothing was checked"),
        (("--retention-left", "25"), "--retention-left"),
        (("nope",), "no flow 'nope'"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], telling: str
) -> None:
    done = doctor(capsys, file, *options)
    assert (done.code, done.out) == (2, "")
    assert telling in done.err


def test_a_missing_secret_is_one_row_with_its_own_advice(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = 'security.protocol = "sasl_ssl"\nsasl.mechanism = "PLAIN"\nsasl.password = { env = "NO_SUCH_SECRET" }\n'
    text = file.read_text(encoding="utf-8").replace('127.0.0.1:9"\n', f'127.0.0.1:9"\n{login}')
    file.write_text(text, encoding="utf-8")
    done = doctor(capsys, file, "--only", "failed,unknown", "-o", "json")
    _, secret = json.loads(done.out)
    assert secret["measured"] == "a secret is read from NO_SUCH_SECRET, which is not set; no client was built"
    assert "set the variable" in secret["advice"]
    assert {"subject": "cluster west", "check": "bootstrap_address"} in secret["not_made"]
