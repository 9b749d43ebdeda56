"""Views that DuckDB computes beforehand for one flow: nothing reads them of others."""

import duckdb

from ledger.store import catalog
from ledger.store.sql import COMPUTED_FOR_A_FLOW, COMPUTED_ONCE, COMPUTED_WHERE_OTHERS_SHARE_IT, connect
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row

FOR_A_FLOW = COMPUTED_FOR_A_FLOW | COMPUTED_WHERE_OTHERS_SHARE_IT


def test_they_are_views() -> None:
    assert set(catalog.view_names()) >= COMPUTED_ONCE | FOR_A_FLOW


def test_a_wide_view_is_computed_only_where_several_views_read_it() -> None:
    ledger = MemoryLedger()
    made = {}
    for query in ("flow_status", "offset_translation"):
        with connect(ledger.at(ledger.latest()), {}, catalog.query(query).reads, "e->w") as connection:
            made[query] = computed(connection)
    assert {query: COMPUTED_WHERE_OTHERS_SHARE_IT & tables for query, tables in made.items()} == {
        "flow_status": set(),
        "offset_translation": COMPUTED_WHERE_OTHERS_SHARE_IT,
    }
    assert "current_maps" in made["flow_status"]


def test_queries_that_are_asked_about_no_flow_read_none() -> None:
    """Between clusters views are computed in their turn, those of a flow among them."""
    read = {
        query.name: FOR_A_FLOW & set(catalog.views_of(query.reads))
        for query in catalog.queries().values()
        if "flow" not in query.parameter_names and not query.is_between_clusters
    }
    assert {name: views for name, views in read.items() if views} == {}


def test_with_a_flow_they_have_its_rows_alone_and_without_one_all() -> None:
    ledger = MemoryLedger()
    claims = [
        row("writers", flow=flow, source_cluster="east", event="claimed", recorded_at_ms=1)
        for flow in ("e->w", "e->n")
    ]
    ledger.append("writers", claims)
    at = ledger.at(ledger.latest())
    with connect(at, {}, ["driver_appends"], "e->w") as of_one, connect(at, {}, ["driver_appends"]) as of_all:
        assert flows_of(of_one) == ["e->w"]
        assert flows_of(of_all) == ["e->n", "e->w"]


def flows_of(connection: duckdb.DuckDBPyConnection) -> list[str]:
    rows = connection.execute("select flow from driver_appends order by flow").fetchall()
    return [flow for (flow,) in rows]


def computed(connection: duckdb.DuckDBPyConnection) -> set[str]:
    rows = connection.execute("select table_name from duckdb_tables() where temporary").fetchall()
    return {name for (name,) in rows}
