"""What `mirror-ledger views` prints makes plain DuckDB answer as the program does; the text is held as text too."""

import os
import random
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from ledger.answers.elsewhere import for_duckdb, for_spark, sealed
from ledger.errors import UsageError
from ledger.facts.tables import TABLES
from ledger.store import catalog
from ledger.store.catalog import Query, Value
from ledger.store.delta_tables import create_tables
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.sql import run_query
from tests.support.histories import FLOW, examples, ledger_of, random_history
from tests.support.ledger_rows import append, copied_to, row
from tests.support.ledgers import COVERING, filled, largest_case
from tests.support.pasted_texts import without_views

pytestmark = pytest.mark.long

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))


PASTED = [name for name, query in catalog.queries().items() if not query.is_between_clusters]


def test_answers_between_clusters_alone_are_not_pasted() -> None:
    asked_between = {
        "consumed_not_copied",
        "group_positions",
        "offset_translation",
        "not_equal",
        "one_sided_records",
        "repeated_records",
    }
    assert set(catalog.queries()) - set(PASTED) == asked_between


def test_views_between_clusters_are_computed_when_a_statement_names_one() -> None:
    case, query = largest_case("offset_translation"), catalog.query("offset_translation")
    with sealed(case, query.params, case.params(query)) as session:
        [found] = session.answers(query.sql)
    assert found is not None
    assert found.to_pylist() == case.expected(query).to_pylist()


@pytest.mark.parametrize("name", examples(check=[*COVERING], soak=PASTED))
def test_every_query_answers_as_its_largest_case_says(name: str, tmp_path: Path, empty_ledger: Path) -> None:
    case, query = largest_case(name), catalog.query(name)
    at = filled(copied_to(tmp_path / "it's written", empty_ledger), case)
    assert answer(pasted_for(query, at), query, case.params(query)) == case.expected(query).to_pylist()


def test_a_generated_history_is_answered_as_it_is_here(tmp_path: Path, empty_ledger: Path) -> None:
    print(f"MIRROR_LEDGER_SEED={SEED}")
    history = random_history(random.Random(SEED))
    at = filled(copied_to(tmp_path, empty_ledger), ledger_of(history, history.target_start + 2))
    query = catalog.query("flow_positions")
    params = {name: FLOW if name == "flow" else False for name in query.parameter_names}
    expected = run_query(query, params, at).to_pylist()
    assert expected
    assert answer(pasted_for(query, at), query, params, times=2) == expected, (
        "what was pasted can be pasted again"
    )


def pasted_for(query: Query, at: DeltaSnapshot) -> str:
    """Without the views that the query does not read: to make them takes seconds."""
    return without_views(for_duckdb(at), set(catalog.view_names()) - set(catalog.views_of(query.reads)))


def answer(
    pasted: str, query: Query, params: Mapping[str, Value], *, times: int = 1
) -> list[dict[str, object]]:
    """Of a DuckDB that knows nothing of this program but what was pasted, so often, and a `params` of its own."""
    with duckdb.connect() as connection:
        for _ in range(times):
            connection.execute(pasted)
        if query.params:
            columns = ", ".join(f"cast(${name.name} as {name.type}) as {name.name}" for name in query.params)
            values = {name: params.get(name) for name in query.parameter_names}
            connection.execute(f"create temporary table params as select {columns}", values)
        found: list[dict[str, object]] = connection.sql(query.sql).to_arrow_table().to_pylist()
    return found


def test_a_later_append_changes_nothing(tmp_path: Path, empty_ledger: Path) -> None:
    path = copied_to(tmp_path, empty_ledger)
    append(path, "writers", [claim("one")])
    text = tables_alone(for_duckdb(open_ledger(path).now()))
    append(path, "writers", [claim("two")])
    with duckdb.connect() as connection:
        connection.execute(text)
        assert connection.sql("select flow from writers").fetchall() == [("one",)]
        assert connection.sql("select count(*) from topics").fetchall() == [(0,)]


def tables_alone(text: str) -> str:
    """What was printed of the ledger's tables."""
    return without_views(text, set(catalog.view_names()))


def claim(flow: str) -> dict[str, object]:
    return row("writers", event="claimed", flow=flow, source_cluster="east")


def test_files_that_duckdb_would_read_as_a_pattern_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "led*ger")
    create_tables(path, now_ms=1)
    append(path, "writers", [claim("one")])
    with pytest.raises(UsageError, match="nothing was printed"):
        for_duckdb(open_ledger(path).now())


def test_what_is_printed_says_which_cut_it_is_and_what_it_rests_on(empty_ledger: Path) -> None:
    at = open_ledger(str(empty_ledger)).now()
    for text, engine in ((for_duckdb(at), "DuckDB"), (for_spark(at), "Spark")):
        assert f"-- at the cut {at.cut.token}, for {engine}" in text
        assert "VACUUM" in text
        for name in (*(table.name for table in TABLES), *catalog.view_names()):
            assert text.count(f"\ncreate or replace temporary view {name} as\n") == 1
