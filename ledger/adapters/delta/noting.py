"""Last rows of a table noted now and then, by whoever maintains it: then a start reads them instead of the table.

What is noted is true whoever notes it and whatever else is at work (`domain.last_rows`), so nobody is kept from it, and
nothing rests on it. Of two that note at once both do.
"""

import logging
from dataclasses import replace

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.last_rows import (
    TableLastRows,
    content_of,
    file_stamps,
    read_last_rows,
    recorded_last_rows,
)
from ledger.adapters.delta.tables import newest_version, opened_at, table_uri
from ledger.domain.tables.last_rows import GRAINS, is_due
from ledger.ports.clock import Clock
from ledger.recording.operation_log import OperatorOperations

log = logging.getLogger(__name__)

NOTED_BY = "maintenance"
"""Column `operator` of what is noted."""


class LastRowsNoting:
    """Notes the last rows of one table when a start would read too much without."""

    def __init__(self, path: str, table: str, clock: Clock) -> None:
        self._path = path
        self._table = table
        self._clock = clock
        self._operations = OperatorOperations(DeltaFactLog(path, clock), operator=NOTED_BY)
        self._known: TableLastRows | None = None

    def note_when_due(self) -> bool:
        """Whether they were noted now; raises what deltalake and DuckDB raise."""
        if self._table not in GRAINS or not self._is_due():
            return False
        # Somebody else may have done it meanwhile; that is looked up only when there is something to do.
        self._known = recorded_last_rows(self._path, self._table)
        if not self._is_due():
            return False
        self._note()
        return True

    def note(self) -> None:
        """Note them now, due or not."""
        self._known = recorded_last_rows(self._path, self._table)
        self._note()

    def _note(self) -> None:
        now_ms = self._clock.now_ms()
        opened = opened_at(table_uri(self._path, self._table))
        found = read_last_rows(opened, self._table, self._known)
        content = content_of(opened, self._table, found, now_ms=now_ms)
        self._operations.record(content, flow=None, reason=None)
        self._known = replace(found, noted=content.noted)
        log.debug("%s: %d last rows were noted of %d", self._table, len(found.last), found.noted.rows)

    def _is_due(self) -> bool:
        opened = newest_version(self._path, self._table)
        files = [] if opened is None else file_stamps(opened)
        noted, last = (None, 0) if self._known is None else (self._known.noted, len(self._known.last))
        return is_due(files, noted, noted_rows=last, now_ms=self._clock.now_ms())
