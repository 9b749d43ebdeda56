"""The latest state of the ledger, as drivers need it: no JVM, no time travel."""

from collections.abc import Mapping
from typing import Any

from ledger.adapters.delta.newest_rows import DeltaRows
from ledger.adapters.delta.reading import DeltaLedger
from ledger.catalog import query
from ledger.domain.facts import SyncCause, SyncKind, source_may_be_gone
from ledger.domain.offsets.position import Position
from ledger.ports.ledger import FlowPosition
from ledger.recording.recorded_state import RecordedState


class DeltaLedgerState(RecordedState):
    """Implements `recording.recorder.RecordingState`, and with it `ports.LedgerState`."""

    def __init__(self, ledger: DeltaLedger) -> None:
        self._rows = DeltaRows(ledger.path)
        super().__init__(self._rows)

    def positions(self, flow: str) -> list[FlowPosition]:
        found = self._rows.answer_by_last_rows(query("flow_positions"), {"flow": flow})
        return [flow_position(row) for row in found]


def flow_position(row: Mapping[str, Any]) -> FlowPosition:
    """The position that a row of the query `flow_positions` tells."""
    return FlowPosition(
        source_topic=row["source_topic"],
        source_topic_id=row["source_topic_id"],
        partition=row["source_partition"],
        target_topic=row["target_topic"],
        target_topic_id=row["target_topic_id"],
        position=Position(
            source_offset=row["source_end"],
            target_offset=row["target_end"],
            next_sequence=row["next_sequence"],
            leader_epoch=row["source_leader_epoch"],
            source_may_be_gone=source_may_be_gone(
                SyncKind(row["kind"]), None if row["cause"] is None else SyncCause(row["cause"])
            ),
        ),
        producer_id=row["producer_id"],
    )
