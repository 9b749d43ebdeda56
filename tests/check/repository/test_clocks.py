"""Clocks order nothing, but what is listed here: the cases of GUARANTEES.md (fault 40), and what is about times.

What one append or one round holds may be sorted by time, a duration is measured by times, and who asks for a time is
answered by times. That decides no order between what different hosts have recorded.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.checkout import CHECKOUT
from tests.support.documents import of_type, relative

_TIME = r"(?:\w+\.)?\w*_ms\b(?: [+-] \w+)?"
_ORDERED = re.compile(r"order by ((?:[^()]|\([^()]*\))*)")
_PICKED = re.compile(r"(?:max|min)_by\(((?:[^()]|\([^()]*\))*)\)")
_COMPARED = re.compile(rf"{_TIME} (?:<=|>=|<|>|between) {_TIME}")

ABOUT_TIMES = {
    "consistent_cut": "it is asked about a time",
    "delta_files": "it is asked about a time",
    "flow_operations": "it is asked about a period",
    "lag_over_time": "it is asked about times, and measures them",
    "replication_lag": "durations are measured",
    "write_pauses": "durations are measured",
    "finished_groups": "how old a reading is",
    "failover_loss": "durations are measured",
    "losses": "durations are measured",
    "lag": "durations are measured",
    "touched_by_lag": "what was recorded while ends were measured",
    "ends_within": "of a length of time what was read in it",
    "readings": "durations are measured",
    "cluster_reach": "since when, of one recorder",
    "audit_l5_produce_before_record": "fault 40: audit L5",
    "recorded_sums": "it is asked about a period",
    "copied_by_time": "it is asked about a period",
    "copied_by_topic": "it is asked about a period",
    "silences": "durations are measured",
    "rows_since": "what came since, of one writer; fault 40: audit L5",
    "audit_l4_append_once": "rows that are one by their stamp are told apart",
}
"""Files that may order and compare times, and why."""

IN_SQL = {
    ("audit_l6_no_silent_loss", "order by o.recorded_at_ms"): "how it is shown",
    ("commits", "order by c.recorded_at_ms"): "rows of one stamp",
    ("commits", "order by c.read_at_ms"): "rows of one stamp",
    ("kept_checkpoints", "order by read_at_ms desc"): "readings of one recorder",
    ("carried_offset_syncs", "b.at_ms < m.recorded_at_ms"): "where rows that say the same together are cut",
    (
        "carried_offset_syncs",
        "recorded_at_ms <= last_break_ms",
    ): "where rows that say the same together are cut",
    ("topics", "order by h.read_at_ms"): "rows of one stamp",
    ("topics", "order by h.recorded_at_ms"): "rows of one stamp",
    ("targets", "n.last_at_ms > r.last_at_ms"): "fault 40: which incarnation is the later one",
    ("logs", "order by last_at_ms"): "fault 40: which incarnation is the later one",
    ("touched_spans", "n.first_recorded_at_ms <= c.recorded_at_ms + 300000"): "fault 40: truncations",
    ("touched_spans", "n.first_recorded_at_ms < c.recorded_at_ms"): "which rows of one map are read apart",
    ("touched_spans", "n.recorded_at_ms >= c.recorded_at_ms"): "which rows of one map are read apart",
    ("reads", "k.read_at_ms + 300000 >= m.moved_at_ms"): "fault 40: seen since a flow synced the group",
    ("reads", "r.recorded_at_ms between w.recorded_at_ms - 300000"): "fault 40: truncations",
    ("reads", "c.made_after_ms <= t.recorded_at_ms + 300000"): "fault 40: truncations",
    ("copies", "c.recorded_at_ms + 300000 >= h.recorded_at_ms"): "fault 40: a flow's own beginning",
    ("doubts", "o.recorded_at_ms <= c.recorded_at_ms + 300000"): "fault 40: a flow's own beginning",
    ("doubts", "t.recorded_at_ms > d.recorded_at_ms + 300000"): "fault 40: truncations",
    ("doubts", "r.recorded_at_ms <= d.recorded_at_ms + 300000"): "fault 40: truncations",
}
"""By file and what it says there."""

IN_CODE = {
    "ledger/changeover/seeing.py": "fault 40: a record that is much younger",
    "ledger/doctor/places.py": "how long ago a folder was written to",
    "ledger/facts/roles.py": "fault 40: heartbeats",
    "ledger/mirror/requests.py": "how it is shown",
    "ledger/reports/periods.py": "how it is shown",
    "ledger/changeover/cut.py": "readings of one recorder",
    "ledger/answers/direction.py": "what is advised; the driver decides by the serial",
    "ledger/answers/drivers.py": "what is said of a start",
    "ledger/answers/status.py": "how it is shown",
    "ledger/answers/lag.py": "how old a reading is",
    "ledger/serving/history.py": "how it is shown",
    "ledger/reports/failover.py": "which of several equal plans is shown as the one that was read",
    "ledger/evidence/reports.py": "which approvals a bundle shows",
}
"""Modules that compare recorded times, and why."""

SQL = [*of_type(".sql", "queries"), *of_type(".sql", "ledger")]


def test_no_time_orders_rows_in_sql_but_where_it_is_said() -> None:
    found = [
        (file.stem, text) for file in SQL if file.stem not in ABOUT_TIMES for text in of_sql(file.read_text())
    ]
    unlisted = [
        (name, text)
        for name, text in found
        if not any(name == listed and text.startswith(said) for listed, said in IN_SQL)
    ]
    assert unlisted == []


def test_no_time_orders_what_code_decides_but_where_it_is_said() -> None:
    found = {relative(file) for file in of_type(".py", "ledger") if list(of_code(file.read_text()))}
    assert found - IN_CODE.keys() == set()


def test_guarantees_has_each_case_that_refers_to_it() -> None:
    text = " ".join((CHECKOUT / "ledger" / "GUARANTEES.md").read_text(encoding="utf-8").split())
    said = text.split("**40**")[1].split("**41**")[0]
    named = {
        "audit L5": "audit L5",
        "which incarnation is the later one": "which incarnation of a topic is the later one",
        "seen since a flow synced the group": "seen since a flow synced the group",
        "truncations": "older than a truncation",
        "a flow's own beginning": "a flow's own beginning",
        "heartbeats": "three heartbeats",
        "a record that is much younger": "much younger",
    }
    reasons = {*ABOUT_TIMES.values(), *IN_SQL.values(), *IN_CODE.values()}
    cases = {reason.removeprefix("fault 40: ") for reason in reasons if reason.startswith("fault 40: ")}
    assert cases == set(named)
    assert [words for words in named.values() if words not in said] == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select row_number() over (order by a, m.moved_at_ms desc)", ["order by m.moved_at_ms desc"]),
        (
            "select max_by(x, case when true then k.read_at_ms end)",
            ["by case when true then k.read_at_ms end"],
        ),
        ("where k.read_at_ms + 300000 >= m.moved_at_ms", ["k.read_at_ms + 300000 >= m.moved_at_ms"]),
        ("where a.read_at_ms -- why\n < b.read_at_ms", ["a.read_at_ms < b.read_at_ms"]),
        ("select max(read_at_ms) from t order by writer_epoch, round", []),
    ],
)
def test_the_listing_sees_sql(sql: str, found: list[str]) -> None:
    assert list(of_sql(sql)) == found


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("a.read_at_ms < b.read_at_ms + 5", True),
        ("row['recorded_at_ms'] >= x", True),
        ("sorted(rows, key=lambda row: row['recorded_at_ms'])", True),
        ("max(rows, key=lambda one: one.moved_at_ms)", True),
        ("a.read_at_ms is None or a.round < b.round", False),
    ],
)
def test_the_listing_sees_code(code: str, is_found: bool) -> None:
    assert bool(list(of_code(code))) is is_found


def of_sql(text: str) -> Iterator[str]:
    """Where a statement orders by a time, picks by one, or compares two."""
    code = " ".join(re.sub(r"--.*", "", text).split())
    for ordered in _ORDERED.finditer(code):
        yield from (f"order by {one.strip()}" for one in ordered[1].split(",") if re.search(r"_ms\b", one))
    for picked in _PICKED.finditer(code):
        by = picked[1].partition(",")[2].strip()
        if re.search(r"_ms\b", by):
            yield f"by {by}"
    yield from _COMPARED.findall(code)


def of_code(text: str) -> Iterator[ast.AST]:
    """Comparisons of recorded times, and what is sorted or chosen by one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            is_order = any(isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in node.ops)
            if is_order and any(_is_time(one) for one in [node.left, *node.comparators]):
                yield node
        elif isinstance(node, ast.Call):
            keys = [one.value for one in node.keywords if one.arg == "key"]
            if any(_is_time(part) for key in keys for part in ast.walk(key)):
                yield node


def _is_time(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name.endswith("_at_ms")
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.endswith("_at_ms")
        case ast.BinOp(left=left, right=right):
            return _is_time(left) or _is_time(right)
    return False
