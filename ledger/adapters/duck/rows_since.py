"""What came to a ledger since an earlier cut, for questions about the rest alone."""

import pyarrow as pa

from ledger.adapters.duck.engine import Snapshot, bounds, connect
from ledger.adapters.duck.views import sql_file
from ledger.domain.tables.cuts import Cut
from ledger.schema import HIGH_WATERMARKS, OFFSET_SYNCS


def rows_since(snapshot: Snapshot, before: Cut) -> dict[str, pa.Table]:
    """By table the rows that a cut did not count: of offset syncs also the last ones before, which they continue."""
    found = {}
    for table in (OFFSET_SYNCS.name, HIGH_WATERMARKS.name):
        with connect(snapshot, {}, (table,)) as connection:
            connection.register("counted", bounds(before.of_table(table)))
            connection.table(table).create_view("recorded")
            found[table] = connection.sql(sql_file(f"{table}_since.sql")).to_arrow_table()
    return found
