"""A driver that waits for a flow's role, with everything started that takes long, and runs the flow when it has it."""

import logging
from collections.abc import Callable

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.spark.session import SessionFactory
from ledger.adapters.system import SystemClock
from ledger.app.mirroring import Connected, begin, connected, drive, require_same_scope
from ledger.config.mirror import MirrorConfig
from ledger.errors import ClusterUnavailableError, ShutOutError
from ledger.mirror.driver.round_loop import StopSignal
from ledger.mirror.driver.run_progress import RunProgress
from ledger.mirror.driver.run_summary import RunSummary
from ledger.mirror.driver.standby import Standby, Succession
from ledger.ports.ledger import require_recorded
from ledger.recording.observation import Subject

log = logging.getLogger(__name__)

_RETRY_S = 5.0


def stand_by(
    config: MirrorConfig,
    flow_name: str,
    *,
    session: SessionFactory,
    allow_scope_reduction: bool = False,
    recorded: frozenset[Subject] = frozenset(Subject),
    stop: StopSignal,
    on_round: Callable[[RunProgress], None],
) -> RunSummary | None:
    """Wait for the flow, then run it until asked to stop; None: asked to end while it waited.

    A standby that another driver shuts out waits again. Raises `PreconditionError` when the configuration leaves out
    topics that were mirrored, unless that is meant, or another cluster answers than the recorded one.
    """
    flow = config.enabled_flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    require_same_scope(config, flow, state, allow_scope_reduction=allow_scope_reduction)
    with connected(config, flow, state, session) as connections:
        standby = Standby(
            flow, state, LocalProcesses(), SystemClock(), keep_warm=lambda: _keep_warm(connections)
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
                    # Refused once, and still nobody has it: who began to claim it died before it had.
                    after=None if refused == former else former,
                )
            except ShutOutError as error:
                log.warning("%s: waits as standby again: %s", flow.name, error)
                refused = former
                stop.wait(_RETRY_S)
    return None


def _answer(state: DeltaLedgerState, connections: Connected) -> bool:
    """Whether both clusters do: without them nothing is claimed, and nothing is lost by waiting."""
    try:
        require_recorded(state, connections.source, connections.target)
    except ClusterUnavailableError as error:
        log.warning("%s: to be taken over, once both clusters answer: %s", connections.flow.name, error)
        return False
    return True


def _keep_warm(connections: Connected) -> None:
    """A round without partitions: it starts the Python workers and loads what copy tasks need."""
    connections.runner.run([()] * connections.flow.tasks, seconds=0.0)


def _telling(flow: str, succession: Succession) -> Callable[[], None]:
    return lambda: log.info("%s", succession.told(flow, now=SystemClock().monotonic()))
