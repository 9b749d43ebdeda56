"""Reports as they are printed: twenty pages at most, whatever a ledger has, and nothing that leads out of them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from ledger.changeover.plans import ChangeoverKind
from ledger.facts.roles import OPERATOR_WRITER
from ledger.reports.failover import failover_report
from ledger.reports.writing import html
from ledger.store.delta_tables import create_tables
from ledger.store.log import DeltaFactLog
from ledger.store.session import random_id
from tests.support import changing_pairs
from tests.support.browser import BROWSERS, browse
from tests.support.changed_ledgers import on_disk
from tests.support.changing_pairs import FAILOVER, ChangingPair
from tests.support.operated import FLOW, Operated, operated, own_mark
from tests.support.pages import Page

PAGES_AT_MOST = 20
BEGAN_MS = 1_766_304_000_000
DAY_MS = 86_400_000
LONG = (
    "a reason that somebody gave at length, since nobody would know a month later why it was asked for " * 3
)
TOPICS, DRILLS = 300, 60

pytestmark = pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium is on this machine")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "empty"
    create_tables(str(path), now_ms=1)
    return path


@pytest.fixture
def flow(tmp_path: Path, ledger: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    """A year in which everything happened often: losses, stops, findings, requests and drills by the hundred."""
    made = operated(tmp_path, ledger, capsys)
    made.writer("claimed", own_mark(), epoch=1, at_ms=BEGAN_MS)
    names = [f"topic-of-the-shop-number-{number:03}-with-a-name-that-is-long" for number in range(TOPICS)]
    made.copied({(name, 0): 1_000 for name in names}, at_ms=BEGAN_MS + 1_000, bytes=10**8, raw_batches=9)
    lost = [made.lost_row(name, 0, 1_000, 1_001 + number) for number, name in enumerate(names)]
    made.append("offset_syncs", *lost, at_ms=BEGAN_MS + DAY_MS)
    rows = [row("drilled", drilled(number)) for number in range(DRILLS)]
    for name in names:
        at = {"topic": name, "topic_id": f"id-of-{name}", "partition": 0}
        rows.append(row("partition_stopped", {**at, "cause": "lost", "message": LONG, "next": "resume"}))
        rows.append(
            row("finding_raised", {**at, "finding": "sequence_unusual", "message": LONG, "next": None})
        )
        rows.append(row("pause", {"topic": name, "partition": None}))
    DeltaFactLog(made.path, made.clock).append_next(OPERATOR_WRITER, "operations", rows)
    return made


def row(kind: str, content: dict[str, object]) -> dict[str, object]:
    of = {"operation_id": random_id(), "kind": kind, "flow": FLOW, "operator": "somebody", "ticket": None}
    return {**of, "reason": LONG, "content": json.dumps(content)}


def drilled(number: int) -> dict[str, object]:
    return {
        **{"from_cluster": "east", "to_cluster": "west", "cut": "v2.x", "verdict": "failed", "removed": []},
        "problems": [f"'group-{one}' at orders partition {one}, place 7: missing" for one in range(50)],
        **{
            "records_lost": number,
            "records_at_least": number,
            "records_at_most": number,
            "seconds_lost": 1.0,
        },
        **{"apply_seconds": 14.2, "commit_seconds": 1.0, "read_seconds": 0.3},
        "groups": {f"group-{one}": {"same": 2, "missing": 1} for one in range(100)},
        "stuck": {"no_map": [f"late-{one}" for one in range(100)]},
    }


def test_a_report_of_a_year_has_twenty_pages_at_most(flow: Operated, tmp_path: Path) -> None:
    for kind in ("audit", "capacity", "drill"):
        file = tmp_path / f"{kind}.html"
        done = flow.command("report", kind, "--since", str(BEGAN_MS), "--file", str(file))
        assert done.code == 0, done.err
        assert 2 <= pages_of(file) <= PAGES_AT_MOST, kind


def test_so_has_that_of_a_failover_of_a_thousand_partitions(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of which lost something, with groups that read all of them; what is not printed is attached."""
    names = [f"topic-of-the-shop-number-{number:03}-with-a-name-that-is-long" for number in range(50)]
    topics = {**changing_pairs.TOPICS, **dict.fromkeys(names, 20)}
    groups = (*changing_pairs.GROUPS, *(f"group-of-somebody-number-{number:03}" for number in range(20)))
    monkeypatch.setattr(changing_pairs, "TOPICS", topics)
    monkeypatch.setattr(changing_pairs, "GROUPS", groups)
    monkeypatch.setattr(
        changing_pairs, "_SETTINGS", {**{name: {} for name in names}, **changing_pairs._SETTINGS}
    )
    places = [(topic, number) for topic, count in topics.items() for number in range(count)]
    pair = ChangingPair()
    pair.consume(pair.east, dict.fromkeys(groups[2:], 1))
    pair.recorders.record_all()
    pair.forward.end_at_once()
    assert all(pair.produce(*place) for place in places)
    pair.recorders.record_all()
    pair.lose_east(with_driver=False)
    operation_id = pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    file = tmp_path / "failover.html"
    file.write_text(html(failover_report(on_disk(pair, tmp_path, ledger), operation_id)), encoding="utf-8")
    assert 2 <= pages_of(file) <= PAGES_AT_MOST
    attached = Page.of(file.read_text(encoding="utf-8")).attachments
    assert len(attached["losses.csv"]) == len(places) + 1, "and a header"
    assert len(attached["groups.csv"]) == len(groups) + 1
    pair.end()


def pages_of(file: Path) -> int:
    """How many pages a browser prints of it; it must not lead to any other place than its own attachments."""
    printed = file.with_suffix(".pdf")
    browse(f"--print-to-pdf={printed}", "--no-pdf-header-footer", file.as_uri())
    pdf = printed.read_bytes()
    leads = {one[:9] for one in re.findall(rb"/URI \((.*?)\)", pdf)}
    assert leads <= {b"data:text"}, leads
    pages = len(re.findall(rb"/Type /Page\b(?!s)", pdf))
    print(f"{file.stem}: {pages} pages, {len(pdf):,} bytes")
    return pages
