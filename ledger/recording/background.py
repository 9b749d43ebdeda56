"""Recorders at work in threads: each takes its role when it is free, and none waits for another's cluster.

Beside a flow none is in the way of the copy. Without one they are all that `record` does.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from ledger.errors import (
    ClusterUnavailableError,
    LedgerUnavailableError,
    MirrorLedgerError,
    OtherClusterError,
    PreconditionError,
    ShutOutError,
)
from ledger.recording.recorder import ClusterRecorder, RecordedRound

log = logging.getLogger(__name__)

_TICK_S = 0.5
_ROLE_RETRY_S = 30.0
_RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""How long a recorder that failed is left alone, by how often it failed in a row."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """That a recorder failed `count` + 1 times in a row, and when it is tried again (monotonic)."""

    count: int
    reason: str
    retry_at: float


class BackgroundRecorders:
    """A context in which recorders work in threads once started; leaving it records once more and releases.

    A flow starts them after its own claim, so that nothing delays its first round. What one of them fails with
    is in `troubles` until it has recorded again; none is given up inside the context.
    """

    def __init__(self, recorders: Sequence[ClusterRecorder]) -> None:
        self._recorders = recorders
        self._ended = threading.Event()
        self._rows = {recorder.writer: Counter[str]() for recorder in recorders}
        self._unavailable: set[str] = set()
        self._failures: dict[str, _Failures] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(recorder,), name=recorder.writer, daemon=True)
            for recorder in recorders
        ]
        self._defect: BaseException | None = None

    @property
    def troubles(self) -> Mapping[str, str]:
        """By writer what keeps it from recording, of those that failed and have not recorded since."""
        if self._defect is not None:
            return {recorder.writer: f"{self._defect!r}" for recorder in self._recorders}
        return {writer: failures.reason for writer, failures in self._failures.copy().items()}

    @property
    def rows(self) -> Mapping[str, Mapping[str, int]]:
        """How many rows were appended so far, by writer and table."""
        return {writer: dict(rows) for writer, rows in self._rows.items()}

    @property
    def are_at_work(self) -> bool:
        """Whether each of them still works: what nobody foresaw ends one, and the end of the context raises it."""
        return self._defect is None

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        if isinstance(error, LedgerUnavailableError):
            return  # nor would it take the end of a role; whoever claims next sees that this process has ended
        with ThreadPoolExecutor(max_workers=max(1, len(self._recorders))) as side_by_side:
            list(side_by_side.map(partial(self._close, record=error is None), self._recorders))
        if error is None and self._defect is not None:
            raise self._defect

    def _work(self, recorder: ClusterRecorder) -> None:
        try:
            waited_s = _ROLE_RETRY_S
            while not self._ended.is_set():
                if waited_s >= _ROLE_RETRY_S:
                    waited_s = 0.0
                    self._take_role(recorder)
                if not self._ended.is_set():
                    self._record(recorder)
                self._ended.wait(_TICK_S)
                waited_s += _TICK_S
        except (
            Exception
        ) as error:  # the end of a thread: what nobody foresaw is reported by whoever waits for it
            log.exception("recording stopped")
            self._defect = error

    def _take_role(self, recorder: ClusterRecorder) -> None:
        try:
            recorder.take_role()
        except ShutOutError as error:
            log.debug("%s: another process claimed it at the same moment: %s", recorder.writer, error)
        except (ClusterUnavailableError, PreconditionError) as error:
            self._say_once(recorder, error)
        except (MirrorLedgerError, OSError) as error:
            self._fail(recorder, error)

    def _record(self, recorder: ClusterRecorder) -> None:
        failures = self._failures.get(recorder.writer)
        if not recorder.holds_role or (failures is not None and time.monotonic() < failures.retry_at):
            return
        try:
            self._count(recorder, recorder.record_due())
            self._say_available(recorder)
        except ShutOutError:
            self._hand_over(recorder)
        except OtherClusterError as error:
            self._say_once(recorder, error)
            self._give_back(recorder)
        except (ClusterUnavailableError, PreconditionError) as error:
            self._say_once(recorder, error)
        except (MirrorLedgerError, OSError) as error:
            self._fail(recorder, error)

    def _hand_over(self, recorder: ClusterRecorder) -> None:
        """Of two that begin at one moment both may take the role: the later one has it, nothing is missing."""
        self._failures.pop(recorder.writer, None)
        self._unavailable.discard(recorder.writer)
        log.info(
            "%s: another process records the cluster from now on; this one takes over when it ends",
            recorder.writer,
        )

    def _give_back(self, recorder: ClusterRecorder) -> None:
        """Whoever claims next compares the cluster with the ledger: this one again, once the other is accepted."""
        try:
            recorder.release()
        except ShutOutError:
            self._hand_over(recorder)
        except (MirrorLedgerError, OSError) as error:
            self._fail(recorder, error)

    def _fail(self, recorder: ClusterRecorder, error: Exception) -> None:
        """Say it, and leave the recorder alone for a while: what it could not append it finds again."""
        before = self._failures.get(recorder.writer)
        count = 0 if before is None else before.count + 1
        wait_s = _RETRY_S[min(count, len(_RETRY_S) - 1)]
        self._failures[recorder.writer] = _Failures(count, str(error), time.monotonic() + wait_s)
        self._say_once(recorder, error)

    def _close(self, recorder: ClusterRecorder, *, record: bool) -> None:
        if not recorder.holds_role:
            return
        try:
            if record:
                self._record_last(recorder)
            recorder.release()
        except ShutOutError:
            log.debug("%s: another process records the cluster", recorder.writer)
        except (MirrorLedgerError, OSError) as error:
            log.warning("%s: not recorded at the end: %s", recorder.writer, error)

    def _record_last(self, recorder: ClusterRecorder) -> None:
        """A cluster that does not answer is no reason to keep the role: whoever comes next need not wait for it."""
        try:
            self._count(recorder, recorder.record_last())
        except ClusterUnavailableError as error:
            log.warning("%s: not recorded at the end: %s", recorder.writer, error)

    def _count(self, recorder: ClusterRecorder, recorded: RecordedRound) -> None:
        self._rows[recorder.writer].update(recorded.rows)

    def _say_once(self, recorder: ClusterRecorder, error: Exception) -> None:
        if recorder.writer not in self._unavailable:
            self._unavailable.add(recorder.writer)
            log.warning("%s: nothing is recorded for now: %s", recorder.writer, error)

    def _say_available(self, recorder: ClusterRecorder) -> None:
        self._failures.pop(recorder.writer, None)
        if recorder.writer in self._unavailable:
            self._unavailable.discard(recorder.writer)
            log.info("%s: recording again", recorder.writer)
