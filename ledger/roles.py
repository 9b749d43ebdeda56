"""Who is at work for a flow, whether a driver may start beside another one, and how old a fresh reading is."""

from ledger.clock import SystemClock
from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.roles import LastClaim, ProcessMark, ProcessTable, RoleVerdict, verdict_here
from ledger.machine import LocalProcesses


def heartbeat_ms(flow: FlowConfig) -> int:
    """How often at least a driver of the flow that is alive appends something; it does so between rounds."""
    return int(max(flow.heartbeat_seconds, flow.round_seconds) * 1000)


FRESH_INTERVALS = 3
"""Ends that nobody has confirmed for so many intervals tell nothing about now."""
LATE_AFTER_SWEEPS = 3
"""No commits recorded of a cluster for so many full sweeps, while the flow's driver runs: nobody records them."""


def interval_ms(flow: FlowConfig) -> int:
    """How often at least the ends of the flow's clusters are confirmed while somebody records them."""
    return int(max(flow.heartbeat_seconds, flow.high_watermark_seconds) * 1000)


def fresh_seconds(flow: FlowConfig) -> float:
    """What was measured longer ago is too old to count."""
    return FRESH_INTERVALS * interval_ms(flow) / 1000


# Take over ----------------------------------------------------------------------------------------
# Whether a driver may start on a flow that another one has claimed.


def driver_verdict(
    flow: FlowConfig, claim: LastClaim | None, processes: ProcessTable, *, now_ms: int
) -> RoleVerdict:
    """What is known of the flow's last driver."""
    return verdict_here(claim, processes, now_ms=now_ms, heartbeat_ms=heartbeat_ms(flow))


def require_free(
    flow: FlowConfig,
    claim: LastClaim | None,
    processes: ProcessTable,
    *,
    now_ms: int,
    way_out: str = "--take-over shuts that driver out",
) -> None:
    """Raises `PreconditionError` while another driver of the flow may be at work.

    A process of this host that is alive has the flow however long it has been silent; one of another host
    has it until it has been silent for three heartbeats. `way_out`: what the operator can do about it.
    """
    verdict = driver_verdict(flow, claim, processes, now_ms=now_ms)
    if claim is None or not (verdict is RoleVerdict.IN_USE or _is_silent_here(verdict, claim, processes)):
        return
    holder = ProcessMark.parse(claim.host)
    raise PreconditionError(
        f"flow {flow.name} is being mirrored: epoch {claim.epoch} by process {holder.pid} on host {holder.host}, "
        f"which last recorded something {(now_ms - claim.last_recorded_at_ms) / 1000:.0f} s ago; nothing was "
        f"copied. {way_out}"
    )


def _is_silent_here(verdict: RoleVerdict, claim: LastClaim, processes: ProcessTable) -> bool:
    """On this host a silent holder is alive: else the verdict says that it is dead."""
    return verdict is RoleVerdict.HOLDER_SILENT and ProcessMark.parse(claim.host).is_beside(processes.own())


# Driver roles -------------------------------------------------------------------------------------
# Whether a driver of a flow is at work now, as far as this host can see.


def verdict_now(flow: FlowConfig, claim: LastClaim | None) -> RoleVerdict:
    """What is known of the driver that claimed the flow last; `claim` None: nobody ever did."""
    return driver_verdict(flow, claim, LocalProcesses(), now_ms=SystemClock().now_ms())


def is_at_work(flow: FlowConfig, claim: LastClaim | None) -> bool:
    """Whether it is alive, or was heard of too lately to be taken for dead."""
    return verdict_now(flow, claim) is RoleVerdict.IN_USE
