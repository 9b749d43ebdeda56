"""Whether a driver may start on a flow that another one has claimed."""

from ledger.config.flow import FlowConfig
from ledger.domain.writer_roles import LastClaim, ProcessMark, ProcessTable, RoleVerdict, verdict_here
from ledger.errors import PreconditionError
from ledger.mirror.driver.heartbeat import heartbeat_ms


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
