"""Starts of simulated drivers: they go by last rows that somebody noted, and are held against all rows.

What is noted is put down some time after it was read; of several the last one counts that was put down. So drivers
claim, are shut out and append in between, files are merged, and clocks of hosts differ.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from ledger.facts.last_rows import Noted
from ledger.facts.syncs import FlowPosition
from tests.simulation.ledger.fact_log import MemoryLedgerState, positions_of
from tests.simulation.ledger.last_rows import MemoryLastRows, read_last_rows
from tests.simulation.ledger.tables import MemoryLedger

TABLE = "offset_syncs"


@dataclass
class NotedLastRows:
    """What was noted last in a life; None: nothing yet."""

    known: MemoryLastRows | None = None

    def read(self, ledger: MemoryLedger) -> MemoryLastRows:
        """The last rows as of now."""
        return read_last_rows(TABLE, ledger.rows_by_file(TABLE), self.known)

    def noted_now(self, ledger: MemoryLedger, now_ms: int) -> MemoryLastRows:
        """What would be noted as of now, by what was noted before."""
        found = self.read(ledger)
        return replace(found, noted=Noted.of(found.noted.rows, found.noted.until, now_ms=now_ms))


@dataclass
class StartingState(MemoryLedgerState):
    """The state that drivers of a life start from; positions of both ways have to be the same."""

    ledger: MemoryLedger
    noted: NotedLastRows
    tally: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__(self.ledger)

    def positions(self, flow: str) -> list[FlowPosition]:
        found = self.noted.read(self.ledger)
        of_all_rows = super().positions(flow)
        by_what_was_noted = positions_of(found.last, flow)
        key = _key
        assert sorted(by_what_was_noted, key=key) == sorted(of_all_rows, key=key), (
            "a start by what was noted goes on elsewhere",
            by_what_was_noted,
            of_all_rows,
        )
        is_short = found.read < found.noted.rows
        self.tally["starts by what was noted" if is_short else "starts by all rows"] += 1
        return of_all_rows


def _key(position: FlowPosition) -> tuple[str, str, int]:
    return position.source_topic, position.source_topic_id, position.partition
