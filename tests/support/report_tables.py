"""Tables of reports as rows by column."""

from typing import Any

from ledger.reports.documents import Table


def rows_of(one: Table) -> list[dict[str, Any]]:
    return [dict(zip(one.columns, row, strict=True)) for row in one.rows]
