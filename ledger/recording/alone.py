"""Recorders without a driver: one read that was asked for, or all that is due until asked to stop."""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from ledger.errors import ClusterUnavailableError
from ledger.recording.background import BackgroundRecorders
from ledger.recording.recorder import ClusterRecorder

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


def record_until(stop: Stop, recorders: Sequence[ClusterRecorder]) -> Mapping[str, Mapping[str, int]]:
    """Each records while it has its role, and waits for it while another process has it; rows by writer and table.

    Neither a cluster nor a ledger that does not answer ends it. Raises what nobody foresaw, of any of them.
    """
    with BackgroundRecorders(recorders) as at_work:
        at_work.start()
        while at_work.are_at_work and not stop.wait(_TICK_S):
            pass
    return at_work.rows
