"""Maintainers of a ledger: they merge its files, die before a commit, and get into each other's way.

What a merge changes for those who read is the order in which rows lie: nothing may rest on it. Merges are drawn from a
stream of their own, so a life is what it is without them; where something rests on the order of files it is not.
What happens to files on disk is not shown here: a ledger in memory has neither old versions nor a log to remove
(`tests/real/store/test_maintenance_model.py`).
"""

import random
from collections import Counter

from ledger.facts.tables import TABLES
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.last_rows import MemoryLastRows
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.starts import NotedLastRows

_DIES = 0.2
_FILES = 8


class Maintainers:
    """Several processes that each read some files of a table, write one, and commit it later, if at all."""

    def __init__(
        self, rng: random.Random, schedule: Schedule, ledger: MemoryLedger, tally: Counter[str]
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._ledger = ledger
        self._tally = tally
        self.is_over = False

    def start(self) -> None:
        self._schedule.after(self._rng.uniform(0.1, 0.6), self._begin)

    def _begin(self) -> None:
        if self.is_over:
            return
        table = self._rng.choice([table.name for table in TABLES])
        files = self._ledger.files(table)
        if len(files) > 1:
            self._write(table, self._rng.sample(files, self._rng.randint(2, min(_FILES, len(files)))))
        self.start()

    def _write(self, table: str, files: list[int]) -> None:
        if self._rng.random() < _DIES:
            self._tally["maintainers died"] += 1
            return
        self._schedule.after(self._rng.uniform(0.0, 1.5), lambda: self._commit(table, files))

    def _commit(self, table: str, files: list[int]) -> None:
        done = self._ledger.merge(table, files)
        self._tally["merges" if done else "merges given up"] += 1


class Noters:
    """Processes that read the last rows of a table and note them a while later, if at all."""

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        ledger: MemoryLedger,
        noted: NotedLastRows,
        tally: Counter[str],
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._ledger = ledger
        self._noted = noted
        self._tally = tally
        self.is_over = False

    def start(self) -> None:
        self._schedule.after(self._rng.uniform(0.1, 1.0), self._begin)

    def _begin(self) -> None:
        if self.is_over:
            return
        ahead_ms = self._rng.randint(-5_000, 60_000)
        found = self._noted.noted_now(self._ledger, self._schedule.now_ms() + ahead_ms)
        if self._rng.random() > _DIES:
            self._schedule.after(self._rng.uniform(0.0, 2.0), lambda: self._note(found))
        self.start()

    def _note(self, found: MemoryLastRows) -> None:
        self._noted.known = found
        self._tally["last rows noted"] += 1
