"""A recorder that runs by itself: it continues while its cluster does not answer, and says so."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from ledger.errors import ClusterUnavailableError
from ledger.recording.recorder import ClusterRecorder, RecordedRound

log = logging.getLogger(__name__)

_TICK_S = 0.5
_ATTEMPTS_OF_ONE_READ = 2
"""As many as it takes to be sure that a cluster does not answer."""


class Stop(Protocol):
    def wait(self, timeout: float | None = None) -> bool: ...


def record_once(recorder: ClusterRecorder, stop: Stop) -> Mapping[str, int]:
    """Rows by table; raises when the cluster does not answer, which is recorded then."""
    for _ in range(_ATTEMPTS_OF_ONE_READ - 1):
        try:
            return recorder.record_once().rows
        except ClusterUnavailableError as error:
            log.warning("%s: the cluster is read once more: %s", recorder.writer, error)
            stop.wait(_TICK_S)
    return recorder.record_once().rows


def record_until(stop: Stop, recorder: ClusterRecorder) -> Mapping[str, int]:
    """Read whenever something is due, until asked to stop; returns rows by table."""
    rows: Counter[str] = Counter()
    is_away = False
    read: Callable[[], RecordedRound] = recorder.record_once
    while True:
        try:
            rows.update(read().rows)
            read = recorder.record_due
        except ClusterUnavailableError as error:
            if not is_away:
                log.warning("%s: nothing is recorded for now: %s", recorder.writer, error)
            is_away = True
        else:
            if is_away:
                log.warning("%s: recording again", recorder.writer)
            is_away = False
        if stop.wait(_TICK_S):
            return rows
