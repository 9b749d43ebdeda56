"""A driver that waits: it watches the flow's role and says once why it waits, until it is to take over."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from ledger.clock import Clock, StopSignal, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError, ShutOutError
from ledger.facts.roles import (
    FlowSight,
    LastClaim,
    ProcessMark,
    ProcessTable,
    Silence,
    StandbyVerdict,
    standby_verdict,
    writer_of,
)
from ledger.facts.state import LedgerState
from ledger.kafka.cluster import require_recorded
from ledger.machine import LocalProcesses
from ledger.mirror.progress import RunProgress, RunSummary
from ledger.mirror.run import Connected, begin, connected, drive, require_same_scope
from ledger.mirror.spark import SessionFactory
from ledger.recorders.observation import Subject
from ledger.roles import heartbeat_ms
from ledger.store.append_durations import AppendDurations
from ledger.store.ledger_copy import require_no_copy
from ledger.store.state import DeltaLedgerState, followed_state

log = logging.getLogger(__name__)

_TICK_S = 0.5
_READ_EVERY_S = 5.0
"""The ledger, while the holder's process is what it was: a process that dies on this host is seen at the next tick."""
_WARMED_EVERY_S = 30.0
"""Spark ends its Python workers when they were idle for a minute."""


@dataclass(frozen=True, slots=True)
class Succession:
    """What a standby takes over: the claim before, why, and when there was a last sign of it (monotonic).

    `last_sign` None: it had ended before the standby began.
    """

    former: LastClaim
    verdict: StandbyVerdict
    last_sign: float | None

    def description(self, flow: str, *, now: float) -> str:
        holder = ProcessMark.parse(self.former.host)
        before = f"epoch {self.former.epoch}, process {holder.pid} on host {holder.host}"
        if self.last_sign is None:
            return f"{flow}: taken over from {before}, which had ended before ({self.verdict})"
        return f"{flow}: taken over from {before}, {now - self.last_sign:.1f} s after its last sign ({self.verdict})"


@dataclass(slots=True)
class Standby:
    """Waits in one thread; `keep_warm` is called between checks, and takes no time to speak of."""

    flow: FlowConfig
    state: LedgerState
    processes: ProcessTable
    clock: Clock
    keep_warm: Callable[[], object] = lambda: None
    _silence: Silence = field(default_factory=Silence)
    _seen: FlowSight | None = None
    _read_at: float = float("-inf")
    _warmed_at: float = float("-inf")
    _is_alive: bool = False
    _last_sign: float | None = None
    _said: str | None = None

    def wait(self, stop: StopSignal) -> Succession | None:
        """Until the flow is to be taken over; None: asked to end before."""
        self._seen = self._said = self._last_sign = None
        while not stop.is_set():
            succession = self._check()
            if succession is not None:
                return succession
            self._warm()
            stop.wait(_TICK_S)
        return None

    def _check(self) -> Succession | None:
        try:
            seen = self._sight()
        except LedgerUnavailableError as error:
            self._silence.forget()
            self._say(f"waits as standby, and cannot read the ledger: {error}")
            return None
        now = self.clock.monotonic()
        verdict = standby_verdict(
            seen,
            own=self.processes.own(),
            holder_alive=self._is_alive,
            silent_seconds=self._silence.seconds(seen.claim, now=now),
            heartbeat_ms=heartbeat_ms(self.flow),
        )
        if verdict.takes_over:
            assert seen.claim is not None, "there is somebody to take over from"
            return Succession(seen.claim, verdict, None if self._said is None else self._last_sign)
        self._say(f"waits as standby: {self._why(verdict, seen.claim)}")
        return None

    def _sight(self) -> FlowSight:
        """The ledger is read when it is due, and when the holder's process has ended."""
        now = self.clock.monotonic()
        was_alive, self._is_alive = self._is_alive, self._is_seen_alive(self._seen)
        if self._seen is None or now - self._read_at >= _READ_EVERY_S or was_alive != self._is_alive:
            before, self._seen = self._seen, self._read()
            self._read_at, self._is_alive = now, self._is_seen_alive(self._seen)
            if before is None or before.claim != self._seen.claim:
                self._note_append(self._seen.claim, now)
        if self._is_alive:
            self._last_sign = now
        return self._seen

    def _note_append(self, claim: LastClaim | None, now: float) -> None:
        """What was appended is the last sign of a holder, except of one whose process can be seen."""
        if claim is not None and (claim.released or not self._is_beside(claim)):
            self._last_sign = now

    def _read(self) -> FlowSight:
        claim = self.state.last_claim(writer_of(self.flow.name))
        began_at = None if claim is None else self.state.driver_began_at(self.flow.name, claim.host)
        return FlowSight(claim, began_at, self.state.requests(self.flow.name).last_stop)

    def _is_seen_alive(self, seen: FlowSight | None) -> bool:
        """Whether the holder is a process that can be seen from here, and is there."""
        if seen is None or seen.claim is None or not self._is_beside(seen.claim):
            return False
        return self.processes.is_alive(ProcessMark.parse(seen.claim.host))

    def _is_beside(self, claim: LastClaim) -> bool:
        return ProcessMark.parse(claim.host).is_beside(self.processes.own())

    def _warm(self) -> None:
        if self.clock.monotonic() - self._warmed_at >= _WARMED_EVERY_S:
            self.keep_warm()
            self._warmed_at = self.clock.monotonic()

    def _why(self, verdict: StandbyVerdict, claim: LastClaim | None) -> str:
        start = f"mirror-ledger run {self.flow.name}"
        if claim is None:
            return f"no driver has run the flow yet; the first one is started by `{start}`"
        holder = ProcessMark.parse(claim.host)
        of = f"process {holder.pid} on host {holder.host} (epoch {claim.epoch})"
        return {
            StandbyVerdict.AT_WORK: f"the flow is that of {of}, and is taken over when that has died",
            StandbyVerdict.NO_DRIVER: f"{of} was no driver; after it the flow is started by `{start}`",
            StandbyVerdict.STOPPED: f"an operator stopped the flow; it is started again by `{start}`",
        }[verdict]

    def _say(self, what: str) -> None:
        if what != self._said:
            log.info("%(flow)s: %(what)s", {"flow": self.flow.name, "what": what})
        self._said = what


# Put together -------------------------------------------------------------------------------------
# A driver that waits for a flow's role, with everything started that takes long, and runs the flow when it
# has it.


_RETRY_S = 5.0


def stand_by(
    config: MirrorConfig,
    flow_name: str,
    *,
    session: SessionFactory,
    allow_scope_reduction: bool = False,
    recorded: frozenset[Subject] = frozenset(Subject),
    stop: StopSignal,
    reload: threading.Event | None = None,
    on_round: Callable[[RunProgress], None],
    appends: AppendDurations | None = None,
) -> RunSummary | None:
    """Wait for the flow, then run it until asked to stop; None: asked to end while it waited.

    A standby that another driver shuts out waits again. Raises `PreconditionError` when the configuration leaves out
    topics that were mirrored, unless that is meant, or another cluster answers than the recorded one.
    """
    flow = config.enabled_flow(flow_name)
    require_no_copy(config.ledger.path)
    state = followed_state(config.ledger.path)
    require_same_scope(config, flow, state, allow_scope_reduction=allow_scope_reduction)
    with ExitStack() as opened:
        connections = _once_both_answer(
            lambda: opened.enter_context(connected(config, flow, state, session)), flow, stop
        )
        if connections is None:
            return None
        standby = Standby(
            flow,
            state,
            LocalProcesses(),
            SystemClock(),
            # A round without partitions: it starts the Python workers and loads what copy tasks need.
            keep_warm=lambda: connections.runner.run([()] * flow.tasks, seconds=0.0),
        )
        refused: int | None = None
        while (succession := standby.wait(stop)) is not None:
            if not _answer(state, connections):
                stop.wait(_RETRY_S)
                continue
            begun = begin(config, flow, state, allow_scope_reduction=allow_scope_reduction)
            former = succession.former.epoch
            try:
                return drive(
                    config,
                    connections,
                    state,
                    begun,
                    until_caught_up=False,
                    recorded=recorded,
                    stop=stop,
                    on_round=on_round,
                    on_claimed=_telling(flow.name, succession),
                    reload=reload,
                    appends=appends,
                    # Refused once, and still nobody has it: who began to claim it died before it had.
                    after=None if refused == former else former,
                )
            except ShutOutError as error:
                log.warning(
                    "%(flow)s: waits as standby again: %(cause)s", {"flow": flow.name, "cause": error}
                )
                refused = former
                stop.wait(_RETRY_S)
    return None


def _once_both_answer(
    connect: Callable[[], Connected], flow: FlowConfig, stop: StopSignal
) -> Connected | None:
    """Connected, however long a cluster or its name is away; None: asked to end before."""
    while not stop.is_set():
        try:
            return connect()
        except ClusterUnavailableError as error:
            log.warning(
                "%(flow)s: waits as standby, for both clusters to answer first: %(cause)s",
                {"flow": flow.name, "cause": error},
            )
            stop.wait(_RETRY_S)
    return None


def _answer(state: DeltaLedgerState, connections: Connected) -> bool:
    """Whether both clusters do: without them nothing is claimed, and nothing is lost by waiting."""
    try:
        require_recorded(state, connections.source, connections.target)
    except ClusterUnavailableError as error:
        log.warning(
            "%(flow)s: to be taken over, once both clusters answer: %(cause)s",
            {"flow": connections.flow.name, "cause": error},
        )
        return False
    return True


def _telling(flow: str, succession: Succession) -> Callable[[], None]:
    return lambda: log.info("%s", succession.description(flow, now=SystemClock().monotonic()))
