"""Several queries of one state by one connection: to make the views takes longer than most answers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from ledger.store import catalog, sql
from ledger.store.catalog import Value
from ledger.store.sql import Relation, Snapshot


def run_together(
    names: Sequence[str],
    params: Mapping[str, Value],
    at: Snapshot,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> dict[str, pa.Table]:
    """By name the answers of queries that take the same parameters, as `run_query` gives each of them."""
    queries = [catalog.query(name) for name in names]
    if "from_cluster" not in params:
        return sql.run_queries(queries, params, at, overrides)
    clusters = str(params["from_cluster"]), str(params["to_cluster"])
    reads = [name for query in queries for name in query.reads]
    with sql.connect(at, overrides, reads, clusters=clusters) as connection:
        return {query.name: sql.answer(connection, query, params) for query in queries}
