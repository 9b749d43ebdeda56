"""Flows that read what is being adopted must have ended: they read it when their driver starts."""

from collections.abc import Callable, Sequence

from ledger.config.flow import FlowConfig
from ledger.domain.writer_roles import LastClaim, ProcessTable, writer_of
from ledger.mirror.driver.take_over import require_free
from ledger.ports.clock import Clock


def require_at_rest(
    flow: FlowConfig,
    readers: Sequence[FlowConfig],
    last_claim: Callable[[str], LastClaim | None],
    processes: ProcessTable,
    clock: Clock,
) -> None:
    """Raises `PreconditionError` while a driver may be at work that would copy on what `flow` adopts."""
    for reader in readers:
        require_free(
            reader,
            last_claim(writer_of(reader.name)),
            processes,
            now_ms=clock.now_ms(),
            way_out=f"It would copy on what {flow.name} adopts. Stop it first: mirror-ledger stop {reader.name}",
        )
