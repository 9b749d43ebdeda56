"""The passes of a group sync in a thread beside a driver: none delays a round, and all have an end."""

import logging
import threading
import time
from types import TracebackType
from typing import Protocol, Self

from ledger.errors import MirrorLedgerError, ShutOutError
from ledger.operations.groups.group_sync import SyncPass

log = logging.getLogger(__name__)

PARTS_OF_TIME = 20
"""A pass takes at most one of so many parts of the time: the next one waits longer where the last one took long."""


class Passes(Protocol):
    """What is done again and again."""

    def run_once(self) -> SyncPass: ...


class SyncThread:
    """A context: a pass at once, then one after the other; at the end a last one, so that a short run syncs too."""

    def __init__(self, passes: Passes, seconds: float, flow: str) -> None:
        self._passes = passes
        self._seconds = seconds
        self._flow = flow
        self._ended = threading.Event()
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._work, name=f"sync_groups:{flow}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None:
            self._pass()

    def _work(self) -> None:
        waited_s = 0.0
        while not self._ended.wait(waited_s):
            began = time.monotonic()
            if not self._pass():
                return
            waited_s = max(self._seconds, PARTS_OF_TIME * (time.monotonic() - began))

    def _pass(self) -> bool:
        """Whether there may be another one; what it failed with is said once, and found again by the next."""
        try:
            done = self._passes.run_once()
        except ShutOutError:
            return False  # the driver ends by the same
        except (MirrorLedgerError, OSError) as error:
            if str(error) != self._trouble:
                log.warning("%s: groups are not synced for now: %s", self._flow, error)
            self._trouble = str(error)
            return True
        self._trouble = None
        if done.synced:
            log.info("%s: synced %d commits of groups", self._flow, done.synced)
        return True
