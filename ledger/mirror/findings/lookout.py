"""Probes the clusters of a flow in threads of its own, so that no round and no call of the driver is in the way.

A cluster is asked every few seconds, sooner after it did not answer. Leaders are asked more seldom where that takes
long, which is where there are many partitions.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ledger.domain.reach import Instant
from ledger.errors import MirrorLedgerError, ShutOutError
from ledger.mirror.findings.reach_watch import Partition, ReachWatch
from ledger.mirror.task.troubles import Side
from ledger.ports.clock import Clock, now_by
from ledger.ports.clusters import ReachProbe

log = logging.getLogger(__name__)

_EVERY_S = 3.0
_AFTER_A_FAILURE_S = 1.0
_LEADERS_SHARE = 20
"""Leaders that all answered are probed again when so many times as long as the probe took has passed."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster to probe, and the partitions of it whose leaders have to answer."""

    probe: ReachProbe
    partitions: Callable[[], Sequence[Partition]]


class Lookout:
    """A context in which the clusters are probed; after it nothing is recorded any more."""

    def __init__(self, watch: ReachWatch, watched: Mapping[Side, Watched], clock: Clock) -> None:
        self._watch = watch
        self._watched = watched
        self._clock = clock
        self._ended = threading.Event()
        self._recording = threading.Lock()
        self._has_failed = False

    def __enter__(self) -> Self:
        for side in self._watched:
            threading.Thread(target=self._work, args=(side,), name=f"lookout-{side}", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._watch.close()

    def _work(self, side: Side) -> None:
        watched = self._watched[side]
        leaders_at = float("-inf")
        try:
            while not self._ended.is_set():
                began = now_by(self._clock)
                partitions = watched.partitions() if began.monotonic >= leaders_at else ()
                if self._probe(side, watched, partitions, began) and partitions:
                    took_s = self._clock.monotonic() - began.monotonic
                    leaders_at = began.monotonic + _LEADERS_SHARE * took_s
                self._record()
                self._ended.wait(_AFTER_A_FAILURE_S if self._watch.is_failing(side) else _EVERY_S)
        except Exception:  # the end of a thread: nobody waits for it who could tell
            if not self._ended.is_set():  # else the process ends, and no thread can be started any more
                log.exception("the %s is not probed any more", side)
        finally:
            watched.probe.close()

    def _probe(self, side: Side, watched: Watched, partitions: Sequence[Partition], began: Instant) -> bool:
        """Whether all was as it should be."""
        try:
            unled = watched.probe.look(partitions)
        except MirrorLedgerError as error:
            self._watch.failed(side, str(error), began=began)
            return False
        self._watch.answered(side)
        if partitions:
            self._watch.unled(side, unled, began=began)
        return not unled

    def _record(self) -> None:
        """What could not be recorded is logged once, until something could be; threads take turns."""
        with self._recording:
            self._record_once()

    def _record_once(self) -> None:
        try:
            if self._watch.record():  # what another thread is trying has not succeeded yet
                self._has_failed = False
        except ShutOutError:
            self._ended.set()  # the driver finds out by itself
        except (MirrorLedgerError, OSError) as error:
            if not self._has_failed:
                log.warning("whether clusters answer is not recorded for now: %s", error)
            self._has_failed = True
