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
"""A pass takes at most one of so many parts of the time: the next one waits longer where the last one took long ..."""
LATER_BY = 10
"""... up to so many intervals: then it takes more of the time, and commits at the target are no older than that."""


def pause_s(interval_s: float, took_s: float) -> float:
    """How long to wait after a pass."""
    return max(interval_s, min(PARTS_OF_TIME * took_s, LATER_BY * interval_s))


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
        self._defect: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"sync_groups:{flow}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None and self._defect is None:
            self._pass()
        if error is None and self._defect is not None:
            raise self._defect

    def _work(self) -> None:
        try:
            self._pass_after_pass()
        except (
            Exception
        ) as error:  # the end of a thread: what nobody foresaw is reported by whoever waits for it
            log.exception("%s: groups are synced no more", self._flow)
            self._defect = error

    def _pass_after_pass(self) -> None:
        waited_s = 0.0
        while not self._ended.wait(waited_s):
            began = time.monotonic()
            if not self._pass():
                return
            waited_s = pause_s(self._seconds, time.monotonic() - began)

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
