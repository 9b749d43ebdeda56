"""Sheets of plans: whose places are asked for, and where each group is to continue, recorded and read again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ledger.adapters.delta.snapshots import DeltaSnapshot, open_ledger
from ledger.app.between_clusters import Way
from ledger.app.group_offsets import Chosen
from ledger.app.position_sheets import Asked, group_answers
from ledger.app.wiring import operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.plans import Plan
from ledger.domain.changeover.steps import ChangeoverKind
from ledger.domain.operations.group_offsets import OffsetsSetResult
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.promotion.changeovers import PlanExported, Sheet
from ledger.operations.changeover.moved_groups import MovedCommit, moved_commits
from ledger.operations.changeover.planned_groups import accepted_when_moved
from ledger.operations.changeover.scope import Scope
from ledger.operations.changeover.sheets import sheets_of
from ledger.operations.groups.beside_outputs import NO_OUTPUTS, OutputsOfGroups
from ledger.operations.groups.outcomes import Choice
from ledger.operations.groups.position_sheet import PositionSheet
from ledger.operations.groups.receipts import Why
from ledger.schema import OPERATIONS


@dataclass(frozen=True, slots=True)
class RecordedSheets:
    """Of one operation: where each group is to continue. `moved`: groups of which a result is recorded there.
    `left_out`: what an export did not hold, in words."""

    operation_id: str
    by_group: Mapping[str, Sheet]
    moved: frozenset[str]
    left_out: tuple[str, ...] = ()


def places_of(config: MirrorConfig, plan: Plan, scope: Scope) -> Asked:
    """Of all groups that move, at all partitions that they read at the former source."""
    return Asked(
        Way(plan.from_cluster, plan.to_cluster),
        Choice(accepted_when_moved(plan.kind, plan.choices), overwrite_newer=plan.choices.overwrite_newer),
        Chosen(plan.choices.groups or ()),
        outputs_kept_to(config, plan.kind),
        scope.moving,
    )


def outputs_kept_to(config: MirrorConfig, kind: ChangeoverKind) -> OutputsOfGroups:
    """Outputs that commits are not to run ahead of: a switchover copies all of them before groups move."""
    return config.outputs_of_groups if kind is ChangeoverKind.FAILOVER else NO_OUTPUTS


def readers(at: DeltaSnapshot, plan: Plan, scope: Scope) -> tuple[frozenset[str], frozenset[str]]:
    """Groups that move, and the topics of the former source that they read."""
    answers = group_answers(at, Asked(Way(plan.from_cluster, plan.to_cluster), Choice()))
    groups = frozenset(str(row["group_id"]) for row in scope.moving(answers) if row["group_id"] is not None)
    return groups, scope.read_topics(answers)


def record_sheets(
    config: MirrorConfig, plan_id: str, sheet: PositionSheet, why: Why, operation_id: str
) -> list[Sheet]:
    """What `verify` compares with later."""
    sheets = sheets_of(plan_id, sheet.settings, target_cluster=sheet.to_cluster, why=why)
    if sheets:
        operator_operations(config).record_parts(
            sheets, operation_id=operation_id, flow=None, reason=why.reason, ticket=why.ticket
        )
    return sheets


def sheets_of_operation(config: MirrorConfig, operation_id: str) -> RecordedSheets:
    """What an operation recorded; of a group that it recorded more than once the last."""
    results = _rows(config, operation_id, OperationKind.OFFSETS_SET_RESULT)
    moved = frozenset(OffsetsSetResult.of_row(row).group for row in results)
    return RecordedSheets(operation_id, last_sheets(config, operation_id), moved)


def last_sheets(config: MirrorConfig, operation_id: str) -> dict[str, Sheet]:
    """By group the last sheet that an operation recorded."""
    sheets = [Sheet.of_row(row) for row in _rows(config, operation_id, OperationKind.SHEET)]
    return {one.group: one for one in sheets}


def _rows(config: MirrorConfig, operation_id: str, kind: OperationKind) -> list[dict[str, Any]]:
    newest = open_ledger(config.ledger.path).now((OPERATIONS.name,))
    return newest.rows(OPERATIONS.name, [("operation_id", "=", operation_id), ("kind", "=", kind)])


def moved_by(config: MirrorConfig, operation_id: str) -> list[MovedCommit]:
    """What an operation set, or found at its place, and what was there before."""
    newest = open_ledger(config.ledger.path).now((OPERATIONS.name,))
    return moved_commits(newest.rows(OPERATIONS.name, [("operation_id", "=", operation_id)]))


def exported_sheets(config: MirrorConfig, plan_id: str) -> RecordedSheets | None:
    """Those of the last export of a plan; None: it was never exported."""
    newest = open_ledger(config.ledger.path).now((OPERATIONS.name,))
    rows = newest.rows(OPERATIONS.name, [("kind", "=", OperationKind.PLAN_EXPORTED)])
    exports = [row for row in rows if PlanExported.of_row(row).plan_id == plan_id]
    if not exports:
        return None
    sheets = sheets_of_operation(config, str(exports[-1]["operation_id"]))
    return replace(sheets, left_out=tuple(PlanExported.of_row(exports[-1]).left_out))
