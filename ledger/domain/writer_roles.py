"""Who may act as a writer: one process at a time, and a rule for when a role is free.

A role is `flow:NAME` or `recorder:CLUSTER`; stamps name the writer so. Taking one from a process that still
runs is safe for the ledger, because a claim shuts the earlier epoch out, but it would make two processes fight
for it. So a role that may be in use is left alone.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

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
    holder = ProcessMark.parse(claim.host) if claim is not None else own
    holder_alive = not holder.is_beside(own) or processes.is_alive(holder)
    return role_verdict(claim, own=own, holder_alive=holder_alive, now_ms=now_ms, heartbeat_ms=heartbeat_ms)
