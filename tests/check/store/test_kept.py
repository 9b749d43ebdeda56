"""What was read of tables and is kept: rows by files, answers by versions, and all kinds of operations by one read."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ledger.changeover.past import PastContext
from ledger.changeover.plans import ChangeoverKind, Choices
from ledger.changeover.seeing import make_plan
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS, Filter
from ledger.facts.ways import Direction
from ledger.store import kept, relations
from ledger.store.delta_tables import table_uri
from ledger.store.kept import KeptAnswers, KeptRows
from ledger.store.relations import passing_rows
from ledger.store.snapshots import open_ledger
from ledger.store.sql import ParquetFiles, Relation
from ledger.store.state import DeltaLedgerState
from tests.support.config_files import write_config
from tests.support.contracts.row_source import FILTERED
from tests.support.ledger_rows import copied_to
from tests.support.operated import FLOW, NOBODY, LaterClock, WrittenLedger


@pytest.fixture
def flow(tmp_path: Path, empty_ledger: Path) -> WrittenLedger:
    return WrittenLedger(copied_to(tmp_path, empty_ledger), LaterClock())


def test_rows_of_files_that_were_read_are_not_read_again() -> None:
    rows = {"a": [1], "b": [2], "c": [3], "merged": [1, 2]}
    read: list[tuple[str, ...]] = []

    def reading(files: ParquetFiles) -> pa.Table:
        read.append(files.paths)
        return pa.table({"n": [number for path in files.paths for number in rows[path]]})

    found = KeptRows()
    versions = (("a", "b"), ("b", "a", "c"), ("merged", "c"))
    looks = [found.of(ParquetFiles(paths, ("n",)), reading) for paths in versions]
    assert [sorted(look["n"].to_pylist()) for look in looks] == [[1, 2], [1, 2, 3], [1, 2, 3]]
    assert read == [("a", "b"), ("c",), ("merged",)]


def test_what_was_answered_of_a_version_is_asked_again_of_a_later_one_alone() -> None:
    answered: list[str] = []

    def answer(question: str, rows: int = 1) -> list[dict[str, Any]]:
        answered.append(question)
        return [{"n": len(answered)}] * rows

    found = KeptAnswers()
    first = found.of("a", (("id", 1), ("more", None)), lambda: answer("a"))
    first.append({"n": "of who asked"})
    assert found.of("a", (("id", 1), ("more", None)), lambda: answer("a")) == [{"n": 1}]
    assert found.of("b", (("id", 1), ("more", None)), lambda: answer("b")) == [{"n": 2}]
    assert found.of("a", (("id", 2), ("more", None)), lambda: answer("a")) == [{"n": 3}]
    assert found.of("b", (("another", 1), ("more", None)), lambda: answer("b")) == [{"n": 4}]
    assert found.of("b", (("another", 1), ("id", 0)), lambda: answer("b")) == [{"n": 5}]
    for _ in range(2):
        assert len(found.of("large", (), lambda: answer("large", 10_001))) == 10_001
    assert answered == ["a", "b", "a", "b", "b", "large", "large"]


def test_of_rows_that_were_read_those_pass_that_pass_in_a_query() -> None:
    rows = pa.table(
        {
            "high_watermark": pa.array([1, 2, 3], pa.int64()),
            "leader_epoch": pa.array([5, None, 7], pa.int32()),
            "topic": ["t", "t", "u"],
        }
    )
    for filters, ends in FILTERED:
        assert [one["high_watermark"] for one in passing_rows(rows, filters)] == ends, filters


# -- Operations ------------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often rows of `operations` were read from files, by the filters."""
    found: Counter[str] = Counter()
    read = relations.arrow_rows

    def counted(relation: Relation, filters: Sequence[Filter]) -> pa.Table:
        rows = read(relation, filters)
        if "operation_id" in rows.column_names and "content" in rows.column_names:
            found[repr(filters)] += 1
        return rows

    for module in (relations, kept):
        monkeypatch.setattr(module, "arrow_rows", counted)
    return found


def test_operations_of_all_kinds_are_read_at_once(flow: WrittenLedger, reads: Counter[str]) -> None:
    def looked(state: DeltaLedgerState) -> list[str]:
        state.directions(), state.fences(), state.shut_outs(), state.recreations(), state.hand_overs()
        state.extras(), state.deficits(), state.open_findings("flow:another")
        return [request.operation_id for request in state.requests(FLOW).asked]

    asked = [flow.operation("pause", {"topic": "orders"}) for _ in range(2)]
    newest = DeltaLedgerState(open_ledger(flow.path))
    assert (looked(newest), reads.total()) == (asked, 1)
    asked.append(flow.operation("pause", {"topic": "users"}))
    assert (looked(newest), reads.total()) == (asked, 2)
    DeltaTable(table_uri(flow.path, OPERATIONS.name)).optimize.compact()
    assert (looked(newest), reads.total()) == (asked, 3)


def test_large_operations_are_read_when_they_are_asked_for(flow: WrittenLedger, reads: Counter[str]) -> None:
    flow.operation("plan", {"plan_id": "p"})
    paused = flow.operation("pause", {"topic": "orders"})
    at = open_ledger(flow.path).now()
    of_kinds: list[tuple[list[Filter], int]] = [
        ([("kind", "in", [OperationKind.PAUSE, OperationKind.STOP])], 1),
        ([("kind", "=", OperationKind.PLAN)], 1),
        ([("kind", "in", [OperationKind.PLAN, OperationKind.PAUSE])], 2),
        ([], 2),
        ([("operation_id", "=", paused)], 1),
    ]
    assert [len(at.rows(OPERATIONS.name, filters)) for filters, _ in of_kinds] == [one for _, one in of_kinds]
    assert reads.total() == len(of_kinds), "the first one of all kinds but large ones"
    assert len(at.rows(OPERATIONS.name, of_kinds[0][0])) == 1
    assert reads.total() == len(of_kinds)


@pytest.mark.parametrize("kind", [ChangeoverKind.FAILOVER, ChangeoverKind.FAILBACK])
def test_a_plan_reads_operations_twice(
    flow: WrittenLedger, reads: Counter[str], tmp_path: Path, kind: ChangeoverKind
) -> None:
    """All kinds that it asks for, and the plans before it."""
    flow.copied({("orders", 0): 5})
    claim = {
        "flow": FLOW,
        "writer": f"flow:{FLOW}",
        "writer_epoch": 1,
        "event": "claimed",
        "host": "h:1:1:there",
    }
    of_clusters = {f"{side}_cluster": alias for side, alias in (("source", "east"), ("target", "west"))}
    ids = {"source_cluster_id": "E", "target_cluster_id": "W", "producer_id": 7}
    flow.append("writers", {**claim, **of_clusters, **ids})
    way = {"topics": ["orders"], "topic_naming": "identity"}
    lines = "\n".join(f"{name} = {value!r}" for name, value in way.items())
    back = f"source = 'west'\ntarget = 'east'\n{lines}\nopposite = '{FLOW}'"
    flows = {FLOW: f"{lines}\nopposite = 'back'", "back": back}
    config = write_config(tmp_path, {"east": NOBODY, "west": NOBODY}, flows)
    flow.operation("pause", {"topic": "orders"})
    at = open_ledger(flow.path).now()
    pair = Direction("east", "west") if kind is ChangeoverKind.FAILOVER else Direction("west", "east")
    with PastContext(config, at, flow.clock.now_ms(), lost="east") as context:
        make_plan(context, kind, pair, Choices(), {})
    assert sorted(reads.values()) == [1, 1], reads
