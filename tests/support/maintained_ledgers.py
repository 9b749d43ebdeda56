"""A ledger on disk to be maintained: a recorder appends to one of its tables, and what is there can be made older."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from ledger.facts.state import WriterClaim
from ledger.store.delta_tables import table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep
from ledger.store.merging import data_files
from ledger.store.snapshots import open_ledger
from tests.support.fakes import FakeClock
from tests.support.recorder_rows import TABLE, watermark

_HOUR_S = 3_600
_SUPERSEDED_AT = re.compile(r'(?<="deletionTimestamp":)\d+')


@dataclass
class Maintained:
    """A ledger whose clock stands, and a recorder that appends to one of its tables."""

    path: str
    clock: FakeClock
    log: DeltaFactLog
    claimed: WriterClaim
    appended: int = 0

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.appended += 1
            self.log.append(self.claimed, TABLE, self.appended, [watermark(self.appended)])

    def upkeep(self, table: str = TABLE, *, keep_hours: int = 1) -> TableUpkeep:
        return TableUpkeep(self.path, table, self.clock, keep_hours=keep_hours)

    def opened(self) -> DeltaTable:
        return DeltaTable(table_uri(self.path, TABLE))

    def offsets(self) -> list[int]:
        """In the order in which they are read."""
        rows = open_ledger(self.path).now().rows(TABLE, [])
        return [row["high_watermark"] for row in rows]

    @property
    def folder(self) -> Path:
        return Path(self.path) / TABLE

    def on_disk(self) -> set[str]:
        return {file.name for file in self.folder.glob("*.parquet")}

    def named(self) -> set[str]:
        """The files of the newest version."""
        return {file.path for file in data_files(self.opened())}

    def later(self, hours: float) -> None:
        make_older(self.folder, hours)


def make_older(table: Path, hours: float) -> None:
    """As if all that is there, and what was superseded, had been made so much earlier."""
    for file in table.rglob("*"):
        changed = file.stat().st_mtime - hours * _HOUR_S
        if file.suffix == ".json":
            file.write_text(_SUPERSEDED_AT.sub(lambda at: _moved(at, hours), file.read_text()))
        os.utime(file, (changed, changed))


def _moved(at: re.Match[str], hours: float) -> str:
    return str(int(at[0]) - round(hours * _HOUR_S * 1000))
