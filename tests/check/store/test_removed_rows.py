"""Rows that somebody took out of a ledger, in files and entries that fit together: the audits miss them."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.facts.tables import Row
from ledger.store import answers
from ledger.store.delta_tables import create_tables
from ledger.store.log import DeltaFactLog
from ledger.store.session import FLOW_TABLES, RECORDER_TABLES, WriterSession
from ledger.store.snapshots import DeltaLedger
from tests.support.ledger_rows import row
from tests.support.operation_logs import claim_of
from tests.support.recorder_rows import claim_row, watermark

_STAMP = ("writer", "writer_epoch", "round", "recorded_at_ms")


def offset_sync(start: int, end: int, kind: str = "copied") -> Row:
    sides = {"source_start": start, "source_end": end, "target_start": start, "target_end": end}
    said = {"kind": kind, "cause": "earliest" if kind == "started" else None}
    made = row("offset_syncs", flow="f", source_topic_id="T", target_topic_id="X", **sides, **said)
    return {name: value for name, value in made.items() if name not in _STAMP}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A ledger to which a flow and a recorder have appended in two epochs, as they always do."""
    path, clock = str(tmp_path / "ledger"), SystemClock()
    create_tables(path, now_ms=clock.now_ms())
    log = DeltaFactLog(path, clock)
    for epoch in range(2):
        with (
            WriterSession.claimed(log, "flow:f", FLOW_TABLES, claim_of("f")) as flow,
            WriterSession.claimed(log, "recorder:east", RECORDER_TABLES, claim_row("host:1:1")) as recorder,
        ):
            if epoch == 0:
                flow.append("offset_syncs", [offset_sync(0, 0, "started")])
            for start in range(epoch * 30, epoch * 30 + 30, 10):
                flow.append("offset_syncs", [offset_sync(start, start + 10)])
                recorder.append("high_watermarks", [watermark(start + 10)])
            flow.alive()
    return path


def broken(path: str) -> set[str]:
    rows = answers.audit_rows(DeltaLedger(path).as_of(None, now_ms=SystemClock().now_ms()))
    return {name.removeprefix("audit_").partition("_")[0] for name, found in rows.items() if found}


@pytest.mark.parametrize(
    ("table", "removed", "audits"),
    [
        ("offset_syncs", "source_start = -1", set()),
        ("offset_syncs", "kind = 'started'", {"l8"}),
        ("offset_syncs", "source_start < 20", {"l8"}),
        ("offset_syncs", "source_start >= 20 and source_start < 30", {"l1", "l8"}),
        ("offset_syncs", "writer_epoch = 1", {"l8"}),
        ("offset_syncs", "source_start >= 0", {"l8"}),
        ("writers", "event = 'claimed' and flow is not null and writer_epoch = 2", {"l8"}),
        ("writers", "event = 'alive' and writer_epoch = 1", {"l8"}),
        ("high_watermarks", "writer_epoch = 1 and high_watermark = 30", {"l8"}),
    ],
)
def test_what_was_removed_is_missed(path: str, table: str, removed: str, audits: set[str]) -> None:
    opened = DeltaTable(f"{path}/{table}")
    opened.alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(f"{path}/{table}").delete(removed)
    assert broken(path) == audits
