"""Position sheets: where all groups of a cluster continue at another, shown, set and read back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import DeltaSnapshot, open_ledger
from ledger.adapters.duck import engine
from ledger.app.between_clusters import Way, require_way, translate_groups
from ledger.app.group_offsets import ALL, Chosen, source_commits
from ledger.app.untranslated import untranslated_groups_at
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.operations.groups.outcomes import Choice, Place
from ledger.operations.groups.position_sheet import (
    UNREAD_ADVICE,
    PositionSheet,
    compute_sheet,
    set_sheet,
)
from ledger.operations.groups.receipts import SourceCommits, Why, unfinished
from ledger.ports.clusters import ClusterAdmin
from ledger.ports.ledger import require_recorded
from ledger.reports.rendering import oddities
from ledger.schema import OPERATIONS


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose places are asked for: of which groups and partitions, of these topics alone (None: all), and what of the
    answers is accepted."""

    way: Way
    choice: Choice
    chosen: Chosen = ALL
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Reasons:
    """The operator's words, and the operation that all that is recorded belongs to; None: one of its own."""

    reason: str | None = None
    ticket: str | None = None
    operation_id: str | None = None


def position_sheet(config: MirrorConfig, at: DeltaSnapshot, asked: Asked) -> PositionSheet:
    """Where groups land as of a cut, compared with what the target has now; changes nothing.

    Raises as `translate_groups` does, and when another cluster answers than the recorded one.
    """
    with _target(config, at, asked.way) as target:
        return _computed(at, target, asked)


def set_positions(
    config: MirrorConfig, at: DeltaSnapshot, asked: Asked, reasons: Reasons
) -> tuple[str | None, PositionSheet]:
    """The same, set and read back; returns the operation id, None: nothing was lacking.

    With an operation id that an earlier attempt had, what that one had begun gets its result.
    """
    with _target(config, at, asked.way) as target:
        sheet = _computed(at, target, asked)
        here = asked.way.from_cluster
        left = SourceCommits(here, source_commits(engine.cluster_commits(at, here)))
        return set_sheet(
            target,
            sheet,
            operator_operations(config),
            Why(None, sheet.cut, left, reasons.reason, reasons.ticket),
            operation_id=reasons.operation_id,
            begun=begun_of(config, reasons.operation_id),
        )


@contextmanager
def _target(config: MirrorConfig, at: DeltaSnapshot, way: Way) -> Iterator[ClusterAdmin]:
    require_way(config, at, way)
    with cluster_admin(config, way.to_cluster) as target:
        require_recorded(DeltaLedgerState(open_ledger(config.ledger.path)), target)
        yield target


def _computed(at: DeltaSnapshot, target: ClusterAdmin, asked: Asked) -> PositionSheet:
    here = asked.way.from_cluster
    unread = untranslated_groups_at(at, here, asked.chosen.groups).to_pylist()
    found = translate_groups(at, asked.way, asked.chosen).to_pylist()
    return compute_sheet(
        target,
        [row for row in found if asked.topics is None or row["source_topic"] in asked.topics],
        asked.choice,
        oddities,
        from_cluster=here,
        cut=at.cut.token,
        unread_groups={row["group_id"]: row["status"] for row in unread if row["status"] in UNREAD_ADVICE},
    )


def begun_of(config: MirrorConfig, operation_id: str | None) -> dict[Place, int]:
    """What attempts under the operation id were about to set, and have recorded no result of."""
    if operation_id is None:
        return {}
    newest = open_ledger(config.ledger.path).now((OPERATIONS.name,))
    return unfinished(newest.rows(OPERATIONS.name, [("operation_id", "=", operation_id)]))
