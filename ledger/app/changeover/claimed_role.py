"""The role of whoever carries out a plan, or undoes what it changed: claimed, recorded under, released."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.plans import Plan
from ledger.domain.facts import WriterEvent
from ledger.domain.writer_roles import APPLY_WRITER
from ledger.operations.changeover.applying import ApplyRecord
from ledger.ports.ledger import Row
from ledger.recording.operation_log import ClaimedOperations
from ledger.recording.writer_session import APPLY_TABLES, WriterSession


@contextmanager
def claimed_role(
    config: MirrorConfig, plan: Plan, *, after: int, operation_id: str, reason: str, ticket: str | None
) -> Iterator[tuple[ApplyRecord, str]]:
    """The record of an operation, and this process as writers say it; `after`: the epoch that is followed, 0: any.

    The role is released at the end, and kept where the body raises: others see whether the process is alive.
    """
    clock, host = SystemClock(), str(LocalProcesses().own())
    session = WriterSession.claimed(
        DeltaFactLog(config.ledger.path, clock),
        APPLY_WRITER,
        APPLY_TABLES,
        _claim_row(plan, host),
        after=after or None,
    )
    with session:
        operations = ClaimedOperations(operator=getpass.getuser())
        operations.begin(session)
        yield ApplyRecord(operations, clock, operation_id=operation_id, reason=reason, ticket=ticket), host
        session.release()


def _claim_row(plan: Plan, host: str) -> Row:
    """The row of `writers` of who carries out a plan, or undoes what it changed."""
    return {
        "event": str(WriterEvent.CLAIMED),
        "host": host,
        "flow": None,
        "source_cluster": plan.from_cluster,
        "source_cluster_id": plan.from_cluster_id,
        "target_cluster": plan.to_cluster,
        "target_cluster_id": plan.to_cluster_id,
        "producer_id": None,
        "former_producer_id": None,
        "source_metadata_offset": None,
        "target_metadata_offset": None,
        "config_hash": None,
        "shut_out": None,
    }
