"""Who may act as a writer: one process at a time, and a rule for when a role is free.

A role is `flow:NAME` or `recorder:CLUSTER`; stamps name the writer so. Taking one from a process that still
runs is safe for the ledger, because a claim shuts the earlier epoch out, but it would make two processes fight
for it. So a role that may be in use is left alone.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from ledger.clock import Instant
from ledger.errors import InvalidValueError

SILENT_HEARTBEATS = 3
OPERATOR_WRITER = "operator"
"""The writer of what people ask for; nobody claims it."""
APPLY_WRITER = "apply"
"""The writer of whoever carries out a plan: one process at a time, of all that use the ledger."""


def writer_of(flow: str) -> str:
    """The writer of a flow's facts: its drivers, `adopt` and `resync-keys`, one at a time."""
    return f"flow:{flow}"


def recorder_of(cluster: str) -> str:
    """The writer of what is recorded of the cluster with this alias."""
    return f"recorder:{cluster}"


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process of one host; the start time tells it from a later process of the same id.

    `place` tells apart what shares a host name: another boot, or another container of a pod that was moved. Only
    where it is the same can processes be seen.
    """

    host: str
    pid: int
    start_ticks: int
    place: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.start_ticks}:{self.place}"

    def is_beside(self, other: "ProcessMark") -> bool:
        """Whether either can see whether the other is alive."""
        return (self.host, self.place) == (other.host, other.place)

    @classmethod
    def parse(cls, text: str) -> "ProcessMark":
        host, _, rest = text.partition(":")
        pid, _, rest = rest.partition(":")
        ticks, _, place = rest.partition(":")
        if not (host and pid.isdecimal() and ticks.isdecimal()):
            raise InvalidValueError(f"a process is written host:pid:start_ticks:place, got {text!r}")
        return cls(host, int(pid), int(ticks), place)


class ProcessTable(Protocol):
    """The processes of this host."""

    def own(self) -> ProcessMark: ...

    def is_alive(self, mark: ProcessMark) -> bool:
        """Whether a process of this host still runs; only asked for marks of this host."""
        ...


@dataclass(frozen=True, slots=True)
class LastClaim:
    """The latest claim of a writer and what the writer did since; `config_hash` None: it recorded none."""

    epoch: int
    host: str
    released: bool
    last_recorded_at_ms: int
    claimed_at_ms: int
    config_hash: str | None = None


class RoleVerdict(StrEnum):
    """Why a role can be taken or cannot. The first that applies, in this order, is reported."""

    UNCLAIMED = "unclaimed"  # nobody ever had it
    RELEASED = "released"  # the last holder gave it back
    HOLDER_DEAD = "holder_dead"  # the holder ran on this host, and its process has ended
    HOLDER_SILENT = "holder_silent"  # nothing recorded for three heartbeats
    IN_USE = "in_use"
    HELD = "held"  # by the one who asks

    @property
    def is_free(self) -> bool:
        return self not in (RoleVerdict.IN_USE, RoleVerdict.HELD)


def role_verdict(
    claim: LastClaim | None, *, own: ProcessMark, holder_alive: bool, now_ms: int, heartbeat_ms: int
) -> RoleVerdict:
    """The verdict on a role; `holder_alive` counts only when the holder can be seen from where `own` runs."""
    if claim is None:
        return RoleVerdict.UNCLAIMED
    if claim.released:
        return RoleVerdict.RELEASED
    if ProcessMark.parse(claim.host).is_beside(own) and not holder_alive:
        return RoleVerdict.HOLDER_DEAD
    if now_ms - claim.last_recorded_at_ms >= SILENT_HEARTBEATS * heartbeat_ms:
        return RoleVerdict.HOLDER_SILENT
    return RoleVerdict.IN_USE


def verdict_here(
    claim: LastClaim | None, processes: ProcessTable, *, now_ms: int, heartbeat_ms: int
) -> RoleVerdict:
    """`role_verdict` with what this host knows about the holder."""
    own = processes.own()
    holder = None if claim is None else ProcessMark.parse(claim.host)
    holder_alive = holder is not None and (not holder.is_beside(own) or processes.is_alive(holder))
    return role_verdict(claim, own=own, holder_alive=holder_alive, now_ms=now_ms, heartbeat_ms=heartbeat_ms)


# Standby ------------------------------------------------------------------------------------------
# When a standby takes a flow over from its last driver, and when it waits.
#
# A standby continues what was running: it follows a driver that died, and one that ended without anybody
# having asked the flow to end (a signal is about a process, `stop` is about the flow). What an operator
# stopped, what no driver has run yet, and what `adopt` or `resync-keys` claimed last is for an operator to
# start.
#
# Silence is counted on the standby's own clock from when it first saw the last append: clocks of two hosts
# do not matter.


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


# Reach --------------------------------------------------------------------------------------------
# That something does not answer: since when, why, and when that is sure. No clock; instants are passed in.
#
# One probe that failed is no outage when the next one succeeds. The second in a row is one, or a first that
# took as long.


SURE_AFTER_PROBES = 2
_SURE_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Failing:
    """That something does not answer; `probes`: how often in a row that was found.

    `began`: when the first probe did that failed, which may have been answered in part; `since_ms`: when it had failed.
    """

    began: Instant
    since_ms: int
    reason: str
    probes: int = 1

    def lasted_s(self, now: float) -> float:
        return now - self.began.monotonic

    def is_sure(self, now: float) -> bool:
        return self.probes >= SURE_AFTER_PROBES or self.lasted_s(now) >= _SURE_AFTER_S


def failed_again(before: Failing | None, reason: str, *, began: Instant, at_ms: int) -> Failing:
    """After one more probe that began then and has failed at `at_ms`; `before` None: it had answered the last one."""
    if before is None:
        return Failing(began, at_ms, reason)
    return replace(before, reason=reason, probes=before.probes + 1)
