"""The role of whoever carries out a plan, or undoes what it changed: claimed, recorded under, released.

What is read while the role is held cannot be changed by another process that carries out a plan: it was shut out.
"""

import getpass
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.repeating import repeated
from ledger.adapters.system import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.plans import Plan
from ledger.domain.facts import WriterEvent
from ledger.domain.writer_roles import APPLY_WRITER, LastClaim
from ledger.errors import MirrorLedgerError, ShutOutError
from ledger.operations.changeover.applying import ApplyRecord
from ledger.ports.clock import Clock
from ledger.ports.ledger import Row
from ledger.recording.operation_log import ClaimedOperations
from ledger.recording.writer_session import APPLY_TABLES, WriterSession
from ledger.schema import OPERATIONS

_LOOKED_AT_EVERY_S = 1.0
"""Whether a row is due that says that the process is alive."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Role:
    """`host`: this process, as writers say it. `require_own`: raises `ShutOutError` once another process holds it."""

    operations: ClaimedOperations
    clock: Clock
    host: str
    require_own: Callable[[], None]

    def record(self, operation_id: str, *, reason: str, ticket: str | None) -> ApplyRecord:
        """The rows of an operation, which are refused once another process has claimed the role."""
        return ApplyRecord(
            self.operations, self.clock, operation_id=operation_id, reason=reason, ticket=ticket
        )


@contextmanager
def claimed_role(config: MirrorConfig, plan: Plan, *, after: int) -> Iterator[Role]:
    """The role, for the body; `after`: the epoch that is followed, 0: none was claimed.

    It is released at the end, and where the body is refused before it has recorded anything. Where the body raises
    later it is kept: others see whether the process is alive.
    """
    clock, host = SystemClock(), str(LocalProcesses().own())
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    session = WriterSession.following(
        DeltaFactLog(config.ledger.path, clock),
        APPLY_WRITER,
        APPLY_TABLES,
        _claim_row(plan, host),
        after=after,
        last_epoch=lambda: _epoch(state.last_claim(APPLY_WRITER)),
        sleep=time.sleep,
    )
    with session:
        operations = ClaimedOperations(operator=getpass.getuser())
        operations.begin(session)
        try:
            yield Role(operations, clock, host, partial(session.require_own, OPERATIONS.name))
        except ShutOutError:
            raise
        except MirrorLedgerError:
            if session.last_round == 0:
                session.release()
            raise
        session.release()


def beside(act: Callable[[], None]) -> AbstractContextManager[None]:
    """In a thread: a step that reads a large ledger, or waits for a cluster, says nothing itself for long.

    What such a thread fails with its step finds at its own next row.
    """
    return repeated(act, every_s=_LOOKED_AT_EVERY_S, failed=log.warning)


def _epoch(claim: LastClaim | None) -> int:
    return 0 if claim is None else claim.epoch


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
