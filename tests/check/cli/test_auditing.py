"""`audit`: all of the ledger, what came since a cut, and projections beside the facts."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.api import Ledger
from ledger.errors import UsageError
from ledger.facts.tables import OFFSET_SYNCS
from ledger.store.delta_tables import table_uri
from tests.support.commands import Done
from tests.support.ledgers import rewrite_block
from tests.support.operated import Operated, own_mark

KEPT = {
    *("audit_l1_tiling", "audit_l2_order", "audit_l3_once", "audit_l4_append_once"),
    *("audit_l5_produce_before_record", "audit_l6_no_silent_loss", "audit_l7_one_flow"),
}
MISSING = "audit_l8_nothing_missing"


@pytest.fixture
def flow(idle: Operated) -> Operated:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 100})
    return idle


def audited(done: Done) -> dict[str, tuple[int | None, str]]:
    return {one["audit"]: (one["rows"], one["status"]) for one in json.loads(done.out)}


def cut_in(done: Done) -> str:
    """The token that `-o json` has on stderr."""
    [line] = [line for line in done.err.splitlines() if line.startswith("cut ")]
    return line.removeprefix("cut ")


def hole(flow: Operated, start: int, end: int) -> None:
    copied = {"kind": "copied", "cause": None, "target_end": end, "records": end - start}
    flow.lost("orders", 0, start, end, **copied)


def test_all_is_audited_then_what_came_since(flow: Operated) -> None:
    every = flow.command("audit", "-o", "json")
    assert every.code == 0, every.err
    assert audited(every) == dict.fromkeys(KEPT | {MISSING}, (0, "kept"))
    assert {one["since"] for one in json.loads(every.out)} == {None}
    assert "all rows were audited" in every.err
    cut = cut_in(every)
    hole(flow, 100, 120)
    since = flow.command("audit", "--since", cut, "-o", "json")
    assert since.code == 0, since.err
    assert audited(since) == {**dict.fromkeys(KEPT, (0, "kept")), MISSING: (None, "not_audited")}
    assert {one["since"] for one in json.loads(since.out)} == {cut}
    assert f"what came since cut {cut} was audited; {MISSING} needs all rows, and was left out" in since.err
    hole(flow, 130, 140)
    broken = flow.command("audit", "--since", cut)
    assert broken.code == 4
    assert "audit_l1_tiling: 1 row" in broken.err
    assert f"mirror-ledger query audit_l1_tiling --since {cut} says where" in " ".join(broken.err.split())
    where = flow.command("query", "audit_l1_tiling", "--since", cut, "-o", "json")
    assert where.code == 4
    assert f"what came since cut {cut} was audited" in where.err
    [row] = json.loads(where.out)
    assert (row["source_start"], row["expected_start"], row["status"]) == (130, 120, "hole")
    later = cut_in(where)
    hole(flow, 140, 150)
    passed = flow.command("audit", "--since", later)
    assert passed.code == 0, "what was there before was audited then"
    as_of = flow.command("audit", "--since", cut, "--as-of", cut)
    assert as_of.code == 0, "nothing came in between"


def test_what_cannot_be_audited_so_is_refused(flow: Operated) -> None:
    before = cut_in(flow.command("audit", "-o", "json"))
    hole(flow, 100, 120)
    after = cut_in(flow.command("audit", "-o", "json"))
    for words, said in (
        (("audit", "--since", after, "--as-of", before), "Give an earlier --since"),
        (("audit", "--since", "nothing"), "is no cut token"),
        (("audit", "--projections", "--since", before), "give --as-of, not --since"),
        (("query", MISSING, "--since", before), "only all rows tell"),
        (("query", "topic_coverage", "--param", "cluster=east", "--since", before), "--since is for audits"),
        (("query", "audit_l1_tiling", "--param", "a=b", "--since", before), "takes no parameters"),
    ):
        done = flow.command(*words)
        assert (done.code, done.out) == (2, ""), (words, done.err)
        assert said in done.err, done.err


def test_python_asks_the_same(flow: Operated) -> None:
    ledger = Ledger.open(flow.config)
    hole(flow, 110, 120)
    now = ledger.at(None)
    found = {one.audit: one for one in now.audit(since=ledger.cut)}
    assert (found["audit_l1_tiling"].rows, str(found["audit_l1_tiling"].status)) == (1, "broken")
    assert (found[MISSING].rows, found[MISSING].since) == (None, ledger.cut)
    assert [row.source_start for row in now.query_since("audit_l1_tiling", ledger.cut)] == [110]
    with pytest.raises(UsageError, match="earlier --since"):
        ledger.audit(since=now.cut)


# -- Projections -----------------------------------------------------------------------------------


def projections(flow: Operated, *options: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = flow.command("audit", "--projections", *options, "-o", "json")
    assert done.code == code, done.err
    return {one["table"]: one for one in json.loads(done.out)}


def test_projections_are_compared_with_the_facts(flow: Operated) -> None:
    flow.watermark("orders", 0, end=100)
    unused = projections(flow)
    assert {one["status"] for one in unused.values()} == {"not_used"}
    assert unused[OFFSET_SYNCS.name]["projected"] is None
    rebuilt = flow.command("maintain", "--rebuild")
    assert rebuilt.code == 0, rebuilt.err
    hole(flow, 100, 120)
    same = projections(flow)[OFFSET_SYNCS.name]
    assert (same["rows"], same["projected"], same["differing"], same["status"]) == (3, 2, 0, "same")

    [block] = Path(table_uri(flow.path, f"projections/{OFFSET_SYNCS.name}")).glob("block-*.parquet")
    _change(block)
    differs = projections(flow, code=4)
    assert {name for name, one in differs.items() if one["status"] == "differs"} == {OFFSET_SYNCS.name}
    assert differs[OFFSET_SYNCS.name]["differing"] == 2, "one row instead of another"
    said = flow.command("audit", "--projections")
    assert "maintain --rebuild" in said.err
    assert flow.command("maintain", "--rebuild").code == 0
    assert projections(flow)[OFFSET_SYNCS.name]["differing"] == 0


def _change(file: Path) -> None:
    """Another target offset in one row; the footer, which says what the block is of, stays as it was."""
    table = pq.read_table(file)
    rows = table.to_pylist()
    changed = max(range(len(rows)), key=lambda number: rows[number]["target_end"])
    rows[changed]["target_end"] += 1
    rewrite_block(file, pa.Table.from_pylist(rows, schema=table.schema))
