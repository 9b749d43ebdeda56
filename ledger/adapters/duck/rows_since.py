"""What came to a ledger since an earlier cut, for questions that were prepared by then, or about the rest alone."""

import pyarrow as pa

from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.duck.engine import Snapshot, bounds, connect
from ledger.adapters.duck.views import sql_file
from ledger.domain.tables.cuts import Cut
from ledger.schema import HIGH_WATERMARKS, OFFSET_SYNCS, TABLE_BY_NAME


def rows_since(snapshot: Snapshot, before: Cut) -> dict[str, pa.Table]:
    """By table the rows that a cut did not count: of offset syncs also the last ones before, which they continue."""
    return {
        OFFSET_SYNCS.name: _rows(snapshot, OFFSET_SYNCS.name, "offset_syncs_since.sql", before),
        HIGH_WATERMARKS.name: _rows(snapshot, HIGH_WATERMARKS.name, "rows_since.sql", before),
    }


def merged_syncs(snapshot: Snapshot) -> pa.Table:
    """Offset syncs in fewer rows, which say the same of where records are, and when each map was recorded last."""
    return _rows(snapshot, OFFSET_SYNCS.name, "merged_syncs.sql", None)


def with_syncs_since(snapshot: Snapshot, before: Cut, merged: pa.Table) -> pa.Table:
    """Those that were `merged` at an earlier cut, and what came since."""
    return pa.concat_tables([merged, _rows(snapshot, OFFSET_SYNCS.name, "rows_since.sql", before)])


def _rows(snapshot: Snapshot, table: str, file: str, before: Cut | None) -> pa.Table:
    schema = arrow_schema(TABLE_BY_NAME[table])
    with connect(snapshot, {}, (table,)) as connection:
        if before is not None:
            connection.register("counted", bounds(before.of_table(table)))
        connection.execute(f"create temporary view recorded as select * from {table}")
        found = connection.sql(sql_file(file)).to_arrow_table()
    return found.select(schema.names).cast(schema)
