"""The audits of an apply: all of the ledger before producers are stopped, and only what came since afterwards."""

import pytest

from ledger.offsets.between_clusters import commit_intervals
from ledger.store import answers
from ledger.store.snapshots import DeltaSnapshot
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row

_PARTITION = {
    "flow": "f",
    "source_cluster": "east",
    "target_cluster": "west",
    "source_topic": "t",
    "source_topic_id": "E",
    "target_topic": "t",
    "target_topic_id": "W",
}


def copied(ledger: MemoryLedger, number: int, start: int, end: int, partition: int = 0) -> None:
    """A round that copied these offsets."""
    stamp = {"writer": "flow:f", "writer_epoch": 1, "round": number, "recorded_at_ms": number}
    sides = {"source_start": start, "source_end": end, "target_start": start, "target_end": end}
    places = {"source_partition": partition, "target_partition": partition}
    copied = {"kind": "copied", "records": end - start, **stamp, **sides, **places}
    ledger.append("offset_syncs", [row("offset_syncs", **_PARTITION, **copied)])


def snapshot(ledger: MemoryLedger) -> DeltaSnapshot:
    return OpenedSnapshot(ledger)  # type: ignore[return-value]


@pytest.mark.parametrize(("start", "broken"), [(20, []), (22, ["audit_l1_tiling"]), (5, ["audit_l1_tiling"])])
def test_what_came_since_is_audited_with_what_it_continues(start: int, broken: list[str]) -> None:
    ledger = MemoryLedger()
    copied(ledger, 1, 0, 10)
    copied(ledger, 2, 10, 20)
    copied(ledger, 2, 0, 7, partition=1)
    before = snapshot(ledger).cut
    copied(ledger, 3, start, 30)
    found = answers.audit_rows(snapshot(ledger), before)
    assert [name for name, rows in found.items() if rows and name == "audit_l1_tiling"] == broken
    assert bool(sum(found.values())) == bool(broken)
    assert answers.audit_rows(snapshot(ledger)).keys() - found.keys() == {"audit_l8_nothing_missing"}


def test_what_was_audited_before_is_not_read_again() -> None:
    ledger = MemoryLedger()
    copied(ledger, 1, 0, 10)
    copied(ledger, 2, 15, 20)
    before = snapshot(ledger).cut
    copied(ledger, 3, 20, 30)
    assert answers.audit_rows(snapshot(ledger))["audit_l1_tiling"] == 1
    assert sum(answers.audit_rows(snapshot(ledger), before).values()) == 0


def test_what_the_target_lost_since_is_found_though_the_copy_was_audited_before() -> None:
    ledger = MemoryLedger()
    copied(ledger, 1, 0, 10)
    before = snapshot(ledger).cut
    read = {"cluster": "west", "topic": "t", "topic_id": "W", "high_watermark": 4, "read_at_ms": 9}
    stamp = {"writer": "recorder:west", "writer_epoch": 1, "round": 1, "recorded_at_ms": 9}
    ledger.append("high_watermarks", [row("high_watermarks", **stamp, **read)])
    found = answers.audit_rows(snapshot(ledger), before)
    assert {name for name, rows in found.items() if rows} == {"audit_l5_produce_before_record"}


def committed(ledger: MemoryLedger, group: str, *read: tuple[int, int], partition: int = 0) -> None:
    """Readings of a recorder: at which second, and which offset."""
    for second, offset in read:
        stamp = {"writer": "recorder:east", "writer_epoch": 1, "round": second, "recorded_at_ms": 0}
        place = {"cluster": "east", "group_id": group, "topic": "t", "topic_id": "E", "partition": partition}
        found = {"committed_offset": offset, "read_at_ms": second * 1000}
        ledger.append("checkpoints", [row("checkpoints", **stamp, **place, **found)])


def test_how_often_a_group_commits_is_learned_from_what_recorders_saw() -> None:
    ledger = MemoryLedger()
    committed(ledger, "billing", (1, 1), (11, 2), (16, 2), (21, 3), (31, 4), (91, 5))
    committed(ledger, "billing", (11, 7), (21, 8), partition=1)
    committed(ledger, "seldom", (1, 1), (3_000, 2))
    committed(ledger, "long ago", (1, 1), (2, 2), (3, 3), (4, 4), (10_000, 5), (20_000, 6))
    assert commit_intervals(snapshot(ledger), "east") == {"billing": 10.0}
    assert commit_intervals(snapshot(ledger), "west") == {}
