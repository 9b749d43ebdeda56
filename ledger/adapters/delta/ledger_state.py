"""The latest state of the ledger, as drivers need it: no JVM, no time travel."""

from ledger.adapters.delta.newest_rows import DeltaRows
from ledger.adapters.delta.snapshots import DeltaLedger
from ledger.catalog import query
from ledger.ports.ledger import FlowPosition
from ledger.recording.recorded_state import RecordedState
from ledger.recording.sync_rows import flow_position


class DeltaLedgerState(RecordedState):
    """Implements `recording.recording_state.RecordingState`, and with it `ports.LedgerState`."""

    def __init__(self, ledger: DeltaLedger) -> None:
        self._rows = DeltaRows(ledger.path)
        super().__init__(self._rows)

    def positions(self, flow: str) -> list[FlowPosition]:
        found = self._rows.answer_by_last_rows(query("flow_positions"), {"flow": flow})
        return [flow_position(row) for row in found]
