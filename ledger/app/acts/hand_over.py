"""Making a cluster of a pair ready for applications or for the mirror, and changing it back."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.app.wiring import operator_operations
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.hand_over.receipts import Purpose
from ledger.errors import UsageError
from ledger.operations.directions import Pair
from ledger.operations.hand_over.carrying_out import ClusterChanges, Ready, Why
from ledger.operations.hand_over.known import KnownPair, known_pair, require_promoted
from ledger.operations.hand_over.planning import HandOver, planned_for_applications, planned_for_mirror
from ledger.ports.ledger import require_recorded


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: a pair of clusters with topics, for whom, and further principals of mirrors."""

    pair: Pair
    purpose: Purpose
    mirrors: frozenset[str] = frozenset()


def show_hand_over(config: MirrorConfig, asked: Asked) -> HandOver:
    """What would be changed now; changes nothing."""
    with _planned(config, asked, _state(config)) as (plan, _admin):
        return plan


def hand_over(
    config: MirrorConfig,
    asked: Asked,
    *,
    reason: str,
    ticket: str | None,
    progress: Callable[[str], None],
    operation_id: str | None = None,
) -> Ready:
    """Change it, as an operation of its own or as a part of another one.

    Raises where a flow may still write there, and what `ClusterChanges.hand_over` raises.
    """
    state = _state(config)
    require_promoted(_known(config, asked, state), state.directions())
    with _planned(config, asked, state) as (plan, admin):
        changes = _changes(config, admin, progress)
        why = Why(reason=reason, ticket=ticket, operation_id=operation_id)
        return changes.hand_over(plan, state.hand_overs(), why)


def undo_hand_over(
    config: MirrorConfig,
    operation_id: str,
    *,
    reason: str,
    ticket: str | None,
    progress: Callable[[str], None],
    undo_id: str | None = None,
) -> list[Ready]:
    """Undo an operation at each cluster that it changed; `undo_id`: as a part of this one, None: of its own."""
    state = _state(config)
    recorded = state.hand_overs()
    clusters = sorted({one.cluster for one in recorded.handed_over(operation_id)})
    if not clusters:
        raise UsageError(f"no hand-over has the operation id {operation_id!r}; nothing was undone")
    done = []
    for alias in clusters:
        with _administrator(config, alias) as admin:
            require_recorded(state, admin)
            changes = _changes(config, admin, progress)
            done.append(
                changes.undo(operation_id, recorded, Why(reason=reason, ticket=ticket, operation_id=undo_id))
            )
    return done


def _state(config: MirrorConfig) -> DeltaLedgerState:
    return DeltaLedgerState(open_ledger(config.ledger.path))


def _known(config: MirrorConfig, asked: Asked, state: DeltaLedgerState) -> KnownPair:
    pair = asked.pair
    config.cluster(pair.cluster)
    config.cluster(pair.former)

    def selects(flow: FlowConfig, topic: str) -> bool:
        return config.topic_selection(flow.name).selects(topic)

    flows = pair.flows_of(config.flows.values(), config.copies)
    configured = (config.cluster(alias).mirror_principal for alias in (pair.former, pair.cluster))
    return known_pair(state, pair, flows, selects, asked.mirrors | frozenset(filter(None, configured)))


@contextmanager
def _planned(
    config: MirrorConfig, asked: Asked, state: DeltaLedgerState
) -> Iterator[tuple[HandOver, KafkaAdmin]]:
    """The plan, and the admin of the cluster that it changes. Who applications leave is asked for nothing."""
    known = _known(config, asked, state)
    with _administrator(config, known.cluster) as cluster:
        require_recorded(state, cluster)
        if asked.purpose is Purpose.APPLICATIONS:
            yield planned_for_applications(known, cluster, cluster), cluster
            return
        with _administrator(config, known.former) as former:
            require_recorded(state, former)
            yield planned_for_mirror(known, former, cluster), former


def _administrator(config: MirrorConfig, alias: str) -> closing[KafkaAdmin]:
    """With the credentials that may change permissions."""
    return closing(KafkaAdmin(alias, config.cluster(alias).for_administration, SystemClock()))


def _changes(config: MirrorConfig, admin: KafkaAdmin, progress: Callable[[str], None]) -> ClusterChanges:
    return ClusterChanges(
        admin=admin,
        permissions=admin,
        operations=operator_operations(config),
        clock=SystemClock(),
        sleep=time.sleep,
        progress=progress,
    )
