"""When a standby takes a flow over from its last driver, and when it waits.

A standby continues what was running: it follows a driver that died, and one that ended without anybody having asked
the flow to end (a signal is about a process, `stop` is about the flow). What an operator stopped, what no driver has
run yet, and what `adopt` or `resync-keys` claimed last is for an operator to start.

Silence is counted on the standby's own clock from when it first saw the last append: clocks of two hosts do not matter.
"""

from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.writer_roles import SILENT_HEARTBEATS, LastClaim, ProcessMark


class StandbyVerdict(StrEnum):
    """Why a standby waits or takes over. The first that applies, in this order, is reported."""

    NEVER_RAN = "never_ran"  # waits: nobody has claimed the flow yet
    AT_WORK = "at_work"  # waits: the holder is alive, or not silent for long enough to be taken for dead
    NO_DRIVER = "no_driver"  # waits: who claimed last was no driver
    STOPPED = "stopped"  # waits: an operator asked the flow to end, and no driver has begun since
    ENDED = "ended"  # takes over: the driver gave the role back, and nobody had asked for that
    DEAD = "dead"  # takes over: its process on this host has ended
    SILENT = "silent"  # takes over: on another host, nothing appended for three heartbeats

    @property
    def takes_over(self) -> bool:
        return self in (StandbyVerdict.ENDED, StandbyVerdict.DEAD, StandbyVerdict.SILENT)


@dataclass(frozen=True, slots=True)
class FlowSight:
    """What the ledger says of a flow's last driver.

    `began_at`: place among operations at which the process that claimed last began to run the flow, None: it is no
    driver's. `last_stop`: place of the last request to end, 0: none.
    """

    claim: LastClaim | None
    began_at: int | None = None
    last_stop: int = 0


def standby_verdict(
    seen: FlowSight, *, own: ProcessMark, holder_alive: bool, silent_seconds: float, heartbeat_ms: int
) -> StandbyVerdict:
    """What a standby does; `holder_alive` counts only when the holder can be seen from where `own` runs."""
    if seen.claim is None:
        return StandbyVerdict.NEVER_RAN
    end = _end(seen.claim, own, holder_alive, silent_seconds, heartbeat_ms)
    if end is None:
        return StandbyVerdict.AT_WORK
    if seen.began_at is None:
        return StandbyVerdict.NO_DRIVER
    return StandbyVerdict.STOPPED if seen.last_stop > seen.began_at else end


def _end(
    claim: LastClaim, own: ProcessMark, holder_alive: bool, silent_seconds: float, heartbeat_ms: int
) -> StandbyVerdict | None:
    """How the holder ended; None: it may be at work. One that can be seen is dead when its process is."""
    if claim.released:
        return StandbyVerdict.ENDED
    if ProcessMark.parse(claim.host).is_beside(own):
        return None if holder_alive else StandbyVerdict.DEAD
    return StandbyVerdict.SILENT if silent_seconds * 1000 >= SILENT_HEARTBEATS * heartbeat_ms else None


class Silence:
    """For how long a flow's last append has been the last one, on the monotonic clock of who asks."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._since = 0.0

    def seconds(self, claim: LastClaim | None, *, now: float) -> float:
        last = None if claim is None else (claim.epoch, claim.last_recorded_at_ms)
        if last != self._last:
            self._last, self._since = last, now
        return 0.0 if last is None else now - self._since

    def forget(self) -> None:
        """Begin again: while nobody could read the ledger, nobody may have been able to append to it either."""
        self._last = None
