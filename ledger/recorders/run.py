"""Recorders at work in threads: each takes its role when it is free, and none waits for another's cluster.

Beside a flow none is in the way of the copy. Without one they are all that `record` does.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self

from ledger.clock import AGAIN_S, StopSignal, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.context import background_maintenance, cluster_admin
from ledger.errors import (
    ClusterUnavailableError,
    LedgerUnavailableError,
    MirrorLedgerError,
    OtherClusterError,
    PreconditionError,
    ShutOutError,
)
from ledger.facts.roles import RoleVerdict
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import require_recorded
from ledger.machine import LocalProcesses
from ledger.recorders.observation import (
    Partitions,
    RecorderSettings,
    Subject,
    copied_topics,
    mirrored_partitions,
    with_former,
)
from ledger.recorders.recorder import ClusterRecorder, RecordedRound
from ledger.store.ledger_copy import require_no_copy
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from ledger.threads import beside


def cluster_recorder(
    config: MirrorConfig,
    admin: KafkaAdmin,
    fact_log: DeltaFactLog,
    state: DeltaLedgerState,
    subjects: frozenset[Subject],
    *,
    partitions_of_one: Partitions | None = None,
) -> ClusterRecorder:
    """For all enabled flows that touch the cluster, whichever of them brings it: one process records a cluster.

    `partitions_of_one`: those of the flow that a driver runs. Where no other one touches the cluster nobody has to ask
    the cluster for them.
    """
    flows = [flow for flow in config.enabled_flows if admin.alias in (flow.source, flow.target)]
    known = partitions_of_one if len(flows) == 1 else None
    mirrored = known or partial(mirrored_partitions, config, admin, flows)
    copied = copied_topics(state, admin.alias)
    return ClusterRecorder(
        admin,
        fact_log,
        state,
        SystemClock(),
        replace(RecorderSettings.of_flows(flows), subjects=subjects),
        partitions=lambda: with_former(mirrored(), admin, copied),
        processes=LocalProcesses(),
    )


# Background ---------------------------------------------------------------------------------------


log = logging.getLogger(__name__)

_TICK_S = 0.5
_ROLE_RETRY_S = 30.0


_taking: dict[str, threading.Lock] = {}
"""By writer: of the flows of a process that begin at one moment one takes a role, and the others see that."""


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
        self._threads = [beside(self._work, recorder, name=recorder.writer) for recorder in recorders]
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
                pause_s = _TICK_S if recorder.holds_role else _ROLE_RETRY_S
                self._ended.wait(pause_s)
                waited_s += pause_s
        except (
            Exception
        ) as error:  # the end of a thread: what nobody foresaw is reported by whoever waits for it
            log.exception("recording stopped")
            self._defect = error

    def _take_role(self, recorder: ClusterRecorder) -> None:
        try:
            with _taking.setdefault(recorder.writer, threading.Lock()):
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
            "%(writer)s: another process records the cluster from now on; this one takes over when it ends",
            {"writer": recorder.writer},
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
        wait_s = AGAIN_S[min(count, len(AGAIN_S) - 1)]
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
            log.warning(
                "%(writer)s: not recorded at the end: %(cause)s", {"writer": recorder.writer, "cause": error}
            )

    def _record_last(self, recorder: ClusterRecorder) -> None:
        """A cluster that does not answer is no reason to keep the role: whoever comes next need not wait for it."""
        try:
            self._count(recorder, recorder.record_last())
        except ClusterUnavailableError as error:
            log.warning(
                "%(writer)s: not recorded at the end: %(cause)s", {"writer": recorder.writer, "cause": error}
            )

    def _count(self, recorder: ClusterRecorder, recorded: RecordedRound) -> None:
        self._rows[recorder.writer].update(recorded.rows)

    def _say_once(self, recorder: ClusterRecorder, error: Exception) -> None:
        if recorder.writer not in self._unavailable:
            self._unavailable.add(recorder.writer)
            log.warning(
                "%(writer)s: nothing is recorded for now: %(cause)s",
                {"writer": recorder.writer, "cause": error},
            )

    def _say_available(self, recorder: ClusterRecorder) -> None:
        self._failures.pop(recorder.writer, None)
        if recorder.writer in self._unavailable:
            self._unavailable.discard(recorder.writer)
            log.info("%(writer)s: recording again", {"writer": recorder.writer})


# Alone --------------------------------------------------------------------------------------------
# Recorders without a driver: one read that was asked for, or all that is due until asked to stop.


_ATTEMPTS_OF_ONE_READ = 2
"""As many as it takes to be sure that a cluster does not answer."""


def record_once(recorder: ClusterRecorder, stop: StopSignal) -> Mapping[str, int]:
    """Rows by table; raises when the cluster does not answer, which is recorded then."""
    for _ in range(_ATTEMPTS_OF_ONE_READ - 1):
        try:
            return recorder.record_once().rows
        except ClusterUnavailableError as error:
            log.warning(
                "%(writer)s: the cluster is read once more: %(cause)s",
                {"writer": recorder.writer, "cause": error},
            )
            stop.wait(_TICK_S)
    return recorder.record_once().rows


def record_until(stop: StopSignal, recorders: Sequence[ClusterRecorder]) -> Mapping[str, Mapping[str, int]]:
    """Each records while it has its role, and waits for it while another process has it; rows by writer and table.

    Neither a cluster nor a ledger that does not answer ends it. Raises what nobody foresaw, of any of them.
    """
    with BackgroundRecorders(recorders) as at_work:
        at_work.start()
        while at_work.are_at_work and not stop.wait(_TICK_S):
            pass
    return at_work.rows


# Recording ----------------------------------------------------------------------------------------
# Recording of clusters, apart from any driver.


RowsByCluster = Mapping[str, Mapping[str, int]]
"""How many rows were appended, by cluster and table."""


def record_clusters(
    config: MirrorConfig,
    clusters: Sequence[str],
    subjects: frozenset[Subject] = frozenset(Subject),
    *,
    stop: StopSignal,
    once: bool,
) -> RowsByCluster:
    """Record clusters (none given: all that flows use) for all flows that touch them, once or until asked to stop.

    Raises `PreconditionError` when no flow touches a cluster, or another one answers than the recorded one. A cluster
    that does not answer, or that another process records, is waited for; of one read that is asked for it is an error,
    raised when the others were read.
    """
    names = list(clusters) or _used(config)
    for name in names:
        _require_flows(config, name)
    require_no_copy(config.ledger.path)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with ExitStack() as connected:
        admins = [connected.enter_context(cluster_admin(config, name)) for name in names]
        recorders = {
            admin.alias: cluster_recorder(
                config, admin, DeltaFactLog(config.ledger.path, SystemClock()), state, subjects
            )
            for admin in admins
        }
        _require_recorded(state, admins)
        if once:
            return _each_once(recorders, stop)
        connected.enter_context(background_maintenance(config))
        rows = record_until(stop, list(recorders.values()))
        return {name: rows[recorder.writer] for name, recorder in recorders.items()}


def _used(config: MirrorConfig) -> list[str]:
    found = sorted({cluster for flow in config.enabled_flows for cluster in (flow.source, flow.target)})
    if not found:
        raise PreconditionError(f"{config.file} has no flow that is enabled; nothing was recorded")
    return found


def _require_flows(config: MirrorConfig, cluster: str) -> None:
    config.cluster(cluster)
    if not any(cluster in (flow.source, flow.target) for flow in config.enabled_flows):
        raise PreconditionError(
            f"no flow of {config.file} that is enabled touches cluster {cluster}; nothing was recorded"
        )


def _require_recorded(state: DeltaLedgerState, admins: Sequence[KafkaAdmin]) -> None:
    """Of those that answer; a recorder compares the others when it claims."""

    def require(admin: KafkaAdmin) -> None:
        with suppress(ClusterUnavailableError):
            require_recorded(state, admin)

    with ThreadPoolExecutor(max_workers=len(admins)) as side_by_side:
        list(side_by_side.map(require, admins))


def _each_once(recorders: Mapping[str, ClusterRecorder], stop: StopSignal) -> RowsByCluster:
    rows: dict[str, Mapping[str, int]] = {}
    failed: list[MirrorLedgerError] = []
    for name, recorder in recorders.items():
        try:
            rows[name] = _once(recorder, stop)
        except MirrorLedgerError as error:
            failed.append(error)
    for other in failed[1:]:
        log.error("%s", other)
    if failed:
        raise failed[0]
    return rows


def _once(recorder: ClusterRecorder, stop: StopSignal) -> Mapping[str, int]:
    if recorder.take_role() is RoleVerdict.IN_USE:
        raise PreconditionError(f"{recorder.writer} is held by a running recorder; nothing was recorded")
    try:
        return record_once(recorder, stop)
    finally:
        recorder.release()
