"""The upkeep of a whole ledger, by what its configuration says."""

from ledger.adapters.delta.maintenance import TableUpkeep
from ledger.adapters.system import SystemClock
from ledger.config.mirror import LedgerConfig
from ledger.schema import TABLES


def table_upkeeps(ledger: LedgerConfig) -> list[TableUpkeep]:
    """That of every table."""
    return [
        TableUpkeep(ledger.path, table.name, SystemClock(), keep_hours=ledger.keep_superseded_hours)
        for table in TABLES
    ]
