"""Ledgers of changes of direction over clusters in memory, as commands and reports read them."""

from itertools import groupby
from pathlib import Path

from ledger.answers.ledger import Ledger
from ledger.facts.tables import TABLES
from ledger.reports.periods import Period
from tests.support.changing_pairs import ChangingPair
from tests.support.ledger_rows import append, copied_to


def on_disk(pair: ChangingPair, folder: Path, empty_ledger: Path) -> Period:
    """The ledger of a simulation as one that commands read: the same rows, an append for each round."""
    path = copied_to(folder, empty_ledger)
    for table in TABLES:
        rows = pair.ledger.rows(table.name)
        for _, appended in groupby(rows, key=lambda row: row["recorded_at_ms"]):
            append(path, table.name, list(appended))
    config = pair.config.model_copy(update={"ledger": pair.config.ledger.model_copy(update={"path": path})})
    return Period.of(Ledger.open(config), None)
