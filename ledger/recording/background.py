"""Recorders that run beside a flow: each in its role when it is free, none in the way of the copy."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError
from ledger.recording.recorder import ClusterRecorder

log = logging.getLogger(__name__)

_TICK_S = 0.5
_ROLE_RETRY_S = 30.0


class BackgroundRecorders:
    """A context in which recorders work in a thread once started; leaving it records once more and releases.

    A flow starts them after its own claim, so that nothing delays its first round.
    """

    def __init__(self, recorders: Sequence[ClusterRecorder]) -> None:
        self._recorders = recorders
        self._ended = threading.Event()
        self._unavailable: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="recorders", daemon=True)
        self.failure: MirrorLedgerError | None = None

    def start(self) -> None:
        if self._recorders:
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with ThreadPoolExecutor(max_workers=max(1, len(self._recorders))) as side_by_side:
            list(side_by_side.map(partial(self._close, record=error is None), self._recorders))
        if error is None and self.failure is not None:
            raise self.failure

    def _work(self) -> None:
        try:
            waited_s = _ROLE_RETRY_S
            while not self._ended.is_set():
                if waited_s >= _ROLE_RETRY_S:
                    waited_s = 0.0
                    self._take_roles()
                for recorder in self._recorders:
                    self._record(recorder)
                self._ended.wait(_TICK_S)
                waited_s += _TICK_S
        except MirrorLedgerError as error:
            log.error("recording stopped: %s", error)
            self.failure = error

    def _take_roles(self) -> None:
        for recorder in self._recorders:
            try:
                recorder.take_role()
            except (ClusterUnavailableError, PreconditionError) as error:
                self._say_once(recorder, error)

    def _record(self, recorder: ClusterRecorder) -> None:
        if not recorder.holds_role:
            return
        try:
            recorder.record_due()
            self._say_available(recorder)
        except (ClusterUnavailableError, PreconditionError) as error:
            self._say_once(recorder, error)

    def _close(self, recorder: ClusterRecorder, *, record: bool) -> None:
        if not recorder.holds_role:
            return
        try:
            if record:
                recorder.record_once()
            recorder.release()
        except (ClusterUnavailableError, PreconditionError) as error:
            log.warning("%s: not recorded at the end: %s", recorder.writer, error)

    def _say_once(self, recorder: ClusterRecorder, error: MirrorLedgerError) -> None:
        if recorder.writer not in self._unavailable:
            self._unavailable.add(recorder.writer)
            log.warning("%s: nothing is recorded for now: %s", recorder.writer, error)

    def _say_available(self, recorder: ClusterRecorder) -> None:
        if recorder.writer in self._unavailable:
            self._unavailable.discard(recorder.writer)
            log.warning("%s: recording again", recorder.writer)
