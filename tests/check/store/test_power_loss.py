"""After a loss of power a ledger in a folder has what was read back, and one command at most lets it go on."""

import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.errors import DamagedLedgerError
from ledger.facts.tables import KEEP_SUPERSEDED_HOURS, TABLES
from ledger.store.delta_tables import create_tables
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep, maintain
from ledger.store.merging import FANOUT
from ledger.store.snapshots import open_ledger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import TABLE, claim, watermark

# -- A disk that forgets what nobody has synced ----------------------------------------------------
# Whatever writes, this process syncs by `os.fsync`, or nobody does. A file whose content was not synced may be there
# afterwards as it was, empty or cut; a name that was not synced may be there or not, whatever became of the content.


class Disk:
    """Of a folder what is synced so far. `seen`: is called right before and behind each time that somebody syncs."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.seen: Callable[[], None] = lambda: None
        self._contents: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        really = os.fsync

        def fsync(opened: int) -> None:
            place = Path(os.readlink(f"/proc/self/fd/{opened}"))
            if not place.is_relative_to(folder):
                return
            self.seen()
            really(opened)
            self._sync(place)
            self.seen()

        patched.setattr(os, "fsync", fsync)

    def _sync(self, place: Path) -> None:
        if place.is_dir():
            self._names[place] = {one.name: one.stat().st_ino for one in place.iterdir()}
        else:
            self._contents[place.stat().st_ino] = place.read_bytes()

    def left_by_power_loss(self, copy: Path, rng: random.Random) -> None:
        """What of the folder is found afterwards, as a copy."""
        copy.mkdir(parents=True)
        self._leave(self.folder, copy, rng)

    def _leave(self, folder: Path, copy: Path, rng: random.Random) -> None:
        synced = self._names.get(folder, {})
        for one in sorted(folder.iterdir()):
            if one.name not in synced and rng.random() < 0.5:
                continue
            if one.is_dir():
                (copy / one.name).mkdir()
                self._leave(one, copy / one.name, rng)
            else:
                (copy / one.name).write_bytes(self._found(one, rng))

    def _found(self, file: Path, rng: random.Random) -> bytes:
        data = file.read_bytes()
        synced = self._contents.get(file.stat().st_ino)
        if synced == data:
            return data
        return rng.choice([data, b"", data[: len(data) // 2], bytes(len(data))])


# -- Ledgers on it ---------------------------------------------------------------------------------


@dataclass
class Losses:
    """Losses of power in the middle of what a recorder and its upkeep do; `read_back`: what they were told is there."""

    disk: Disk
    folder: Path
    rng: random.Random
    one_in: int
    read_back: set[int] = field(default_factory=set)
    named: list[str] = field(default_factory=list)
    damaged: int = 0
    whole: int = 0

    def maybe(self) -> None:
        if self.rng.randrange(self.one_in) == 0:
            self.lose_power()

    def lose_power(self) -> None:
        copy = self.folder / str(self.damaged + self.whole)
        self.disk.left_by_power_loss(copy, self.rng)
        path = str(copy)
        if self._is_whole(path):
            self.whole += 1
        else:
            self.damaged += 1
            for table in TABLES:
                TableUpkeep(path, table.name, FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS).repair()
        rows = open_ledger(path).now().rows(TABLE, [])
        found = [row["high_watermark"] for row in rows]
        assert len(found) == len(set(found))
        assert set(found) >= self.read_back, "what was read back is lost"
        log = DeltaFactLog(path, FakeClock())
        log.append(claim(log), TABLE, 1, [watermark(-1)])

    def _is_whole(self, path: str) -> bool:
        try:
            open_ledger(path)
        except DamagedLedgerError as error:
            self.named.append(str(error).partition(";")[0])
            return False
        return True


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with pytest.MonkeyPatch.context() as patched:
        yield Disk(tmp_path / "ledger", patched)


def test_nothing_that_was_read_back_is_lost_with_the_power(disk: Disk, tmp_path: Path) -> None:
    path, clock = str(disk.folder), FakeClock(1_766_000_000.0)
    create_tables(path, now_ms=clock.now_ms())
    DeltaTable(f"{path}/{TABLE}").alter.set_table_properties({"delta.checkpointInterval": "7"})
    log = DeltaFactLog(path, clock)
    claimed = claim(log)
    losses = Losses(disk, tmp_path / "lost", random.Random(5), one_in=16)
    disk.seen = losses.maybe
    upkeep = TableUpkeep(path, TABLE, clock, keep_hours=KEEP_SUPERSEDED_HOURS)
    for number in range(1, 2 * FANOUT + 1):
        log.append(claimed, TABLE, number, [watermark(number)])
        losses.read_back.add(number)
        if number == FANOUT + 1:
            clock.now_s += 3 * 86_400.0
            maintain(upkeep)
    disk.seen = lambda: None
    losses.lose_power()
    assert min(losses.damaged, losses.whole) > 2, losses
    assert not [words for words in losses.named if not re.search(r"_delta_log/\d+\.json (is|holds)", words)]
    assert list(disk.folder.glob(f"{TABLE}/_delta_log/*.checkpoint.parquet"))
