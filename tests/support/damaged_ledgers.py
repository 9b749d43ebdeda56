"""Ledgers of which a file is damaged, as a loss of power, a full disk, a partial copy or a person leave it."""

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.changeover.plans import StepName
from ledger.facts.changeovers import PlanRecorded
from tests.support.changeovers import plan, with_hooks
from tests.support.operated import Operated, operated, operated_copy, own_mark

TABLES = ("offset_syncs", "operations", "writers", "checkpoints")
"""Of which the ledger has several files and entries, and a checkpoint in the middle."""
PLAN = with_hooks(plan(), **{str(StepName.STOP_PRODUCERS): "stop"})
READING: Mapping[str, tuple[str, ...]] = {
    "status": ("status",),
    "status --check": ("status", "--check"),
    "translate": ("offsets", "translate", "--flow", "east-to-west", "-o", "json"),
    "between": ("offsets", "translate", "--from", "east", "--to", "west", "-o", "json"),
    "audit": ("query", "audit_l1_tiling"),
    "groups": ("query", "cluster_groups", "--param", "cluster=east", "-o", "csv"),
    "sql": (
        "sql",
        "select (select sum(source_end) from offset_syncs), (select max(round) from operations), "
        "(select count(*) from writers), (select sum(committed_offset) from checkpoints)",
        "-o",
        "csv",
    ),
    "plans": ("plan", "list", "-o", "csv"),
    "plan": ("plan", "show", PLAN.plan_id, "-o", "json"),
    "maintain": ("maintain", "--dry-run"),
}


def written(folder: Path, empty: Path, capture: pytest.CaptureFixture[str]) -> Operated:
    """A ledger whose tables have files and entries on both sides of a checkpoint."""
    made = operated(folder, empty, capture)
    for number in range(1, 5):
        made.writer("claimed", own_mark(), epoch=number)
        made.copied({("orders", number): number * 10})
        made.append("checkpoints", _commit(number))
        made.operation("driver_starting", {"host": "h:1:1", "until_caught_up": False})
        content = PlanRecorded(plan_id=PLAN.plan_id, plan=PLAN.content(), blockers=(), cut="c", forecast={})
        made.operation("plan", content.content())
        if number == 2:
            for table in TABLES:
                DeltaTable(f"{made.path}/{table}").create_checkpoint()
    return made


def _commit(partition: int) -> dict[str, object]:
    at = {"topic": "orders", "topic_id": "id-of-orders", "partition": partition}
    return {"cluster": "east", "group_id": "g", **at, "committed_offset": 5, "read_at_ms": 1}


def copy_of(made: Operated, folder: Path) -> Operated:
    folder.mkdir()
    return operated_copy(folder, made, made.capture)


def without_ages(text: str) -> str:
    """An answer as it is whenever it is asked for."""
    return " ".join(re.sub(r"\(?([\d.]+ (s|min|h) ?)+(ago)?\)?", "", text).split())


def cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def garbage(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(file.stat().st_size))


WAYS: Mapping[str, Callable[[Path], object]] = {
    "cut": cut,
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "missing": Path.unlink,
    "garbage": garbage,
    "empty": lambda file: file.write_bytes(b""),
}
FILES: Mapping[str, Callable[[Path], Path]] = {
    "first rows": lambda table: _by_age(table, "*.parquet")[0],
    "last rows": lambda table: _by_age(table, "*.parquet")[-1],
    "first entry": lambda table: sorted(table.glob("_delta_log/*.json"))[0],
    "entry behind the checkpoint": lambda table: sorted(table.glob("_delta_log/*.json"))[-2],
    "last entry": lambda table: sorted(table.glob("_delta_log/*.json"))[-1],
    "checkpoint": lambda table: next(table.glob("_delta_log/*.checkpoint.parquet")),
    "last checkpoint": lambda table: table / "_delta_log" / "_last_checkpoint",
}


def _by_age(table: Path, pattern: str) -> list[Path]:
    return sorted(table.glob(pattern), key=lambda file: file.stat().st_mtime_ns)
