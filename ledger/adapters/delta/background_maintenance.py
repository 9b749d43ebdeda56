"""Maintenance beside a driver or a recorder: in a thread of its own, in no round's way, and never the end of a run.

Several processes may do it for one ledger. They begin at times of their own, so mostly one of them finds something to
do; where two merge the same files, one merge is committed.
"""

import logging
import random
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from ledger.adapters.delta.maintenance import TableUpkeep
from ledger.errors import MirrorLedgerError

log = logging.getLogger(__name__)

PASS_S = 60.0
"""A writer of a commit every five seconds leaves twelve small files in that time: one merge."""
CLEAN_S = 900.0
"""A quarter of the shortest time that superseded files stay."""
_END_S = 30.0
"""A merge is bounded (`table_upkeep`), and no other one is begun once the run ends."""


class BackgroundMaintenance:
    """A context in which tables are maintained; leaving it waits for the merge under way.

    What fails is logged once until it works again. `doctor` and `status` tell when files pile up.
    """

    def __init__(
        self, upkeeps: Sequence[TableUpkeep], *, pass_s: float = PASS_S, clean_s: float = CLEAN_S
    ) -> None:
        self._upkeeps = upkeeps
        self._pass_s = pass_s
        self._clean_s = clean_s
        self._ended = threading.Event()
        self._failing: set[str] = set()
        self._cleaned: dict[str, float] = {}
        self._thread = threading.Thread(target=self._work, name="maintenance", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(_END_S)
        if self._thread.is_alive():
            log.warning("maintenance of the ledger did not end within %.0f s; nothing depends on it", _END_S)

    def _work(self) -> None:
        wait_s = random.uniform(0, self._pass_s)
        while not self._ended.wait(wait_s):
            for upkeep in self._upkeeps:
                if self._ended.is_set():
                    return
                self._try(upkeep)
            wait_s = self._pass_s

    def _try(self, upkeep: TableUpkeep) -> None:
        try:
            self._maintain(upkeep)
        except (MirrorLedgerError, OSError) as error:
            self._say_once(upkeep.table, str(error))
        except Exception as error:  # nothing that goes wrong here may end the run beside it
            if upkeep.table not in self._failing:
                log.exception("maintenance of %s met something that nobody foresaw", upkeep.table)
            self._say_once(upkeep.table, repr(error))
        else:
            self._failing.discard(upkeep.table)

    def _maintain(self, upkeep: TableUpkeep) -> None:
        done = upkeep.merge(ended=self._ended.is_set)
        if done.merged:
            log.debug("%s: %d files merged into %d", upkeep.table, done.merged, done.written)
        if not self._ended.is_set():
            upkeep.note()
        cleaned = self._cleaned.get(upkeep.table)
        if not self._ended.is_set() and (cleaned is None or time.monotonic() - cleaned >= self._clean_s):
            removed, entries = upkeep.clean(ended=self._ended.is_set)
            self._cleaned[upkeep.table] = time.monotonic()
            log.debug(
                "%s: %d superseded files removed, %s entries of the log", upkeep.table, removed, entries
            )

    def _say_once(self, table: str, reason: str) -> None:
        if table not in self._failing:
            self._failing.add(table)
            log.warning("the ledger's table %s is not maintained for now: %s", table, reason)
