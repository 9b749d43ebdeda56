"""The state of a ledger that holds some offset syncs, on real Delta or in memory: both are to answer alike."""

from collections.abc import Sequence
from pathlib import Path

from ledger.facts.rows import FlowIdentity
from ledger.facts.state import LedgerState
from ledger.facts.syncs import OffsetSync
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.former_copies import stamped
from tests.support.ledger_copies import copied_to
from tests.support.ledger_rows import append

STORES = ("delta", "memory")


def state_on(
    store: str, recorded: Sequence[tuple[FlowIdentity, int, OffsetSync]], folder: Path, empty_ledger: Path
) -> LedgerState:
    """`recorded` are offset syncs with their flow and round; a Delta ledger is made below the folder."""
    rows = [stamped(*row) for row in recorded]
    if store == "memory":
        ledger = MemoryLedger()
        ledger.append("offset_syncs", rows)
        return MemoryLedgerState(ledger)
    path = copied_to(folder, empty_ledger)
    append(path, "offset_syncs", rows)
    return DeltaLedgerState(open_ledger(path))
