"""Plans: made, recorded, and read again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.app import answers
from ledger.app.changeover.seeing import Pair, see
from ledger.app.wiring import operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.applies import APPLY_KINDS, Applies, Apply, recorded_plan
from ledger.domain.changeover.plans import Choices, Plan, id_of
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.promotion.changeovers import PlanRecorded
from ledger.operations.changeover.planning import Planned, planned
from ledger.reports.rendering import oddities
from ledger.schema import OPERATIONS


def make_plan(
    config: MirrorConfig,
    kind: ChangeoverKind,
    pair: Pair,
    choices: Choices,
    hooks: Mapping[StepName, str],
    *,
    as_of: str | None = None,
) -> Planned:
    """What carrying it out would do now, or as of a cut; nothing is changed, and nothing recorded."""
    seen = see(config, kind, pair, choices, fence_hook=hooks.get(StepName.FENCE), as_of=as_of)
    return planned(kind, seen, choices, hooks, oddities)


def record_plan(config: MirrorConfig, made: Planned, *, reason: str | None, ticket: str | None) -> str:
    """The plan as a row of the ledger, so that it can be carried out; returns the operation id of the row."""
    content = PlanRecorded(
        plan_id=made.plan.plan_id,
        plan=made.plan.content(),
        blockers=made.recorded_blockers,
        cut=made.cut,
        forecast=made.forecast,
    )
    return operator_operations(config).record(content, flow=None, reason=reason, ticket=ticket)


@dataclass(frozen=True, slots=True)
class PlannedBefore:
    """A plan as the ledger has it, and what was made of it."""

    plan: Plan
    recorded: PlanRecorded
    applies: Applies


def read_plan(config: MirrorConfig, plan_id: str, *, is_begun: bool = False) -> PlannedBefore:
    """Raises `UsageError` for an id that no plan of this ledger has, `PreconditionError` for a plan of somebody else
    under the id; where it `is_begun` that matters no more."""
    at = answers.snapshot(config, None)
    plan, recorded = recorded_plan(_rows(at, OperationKind.PLAN), plan_id, is_begun=is_begun)
    return PlannedBefore(plan, recorded, read_applies(at))


def read_applies(at: DeltaSnapshot) -> Applies:
    """All operations that have carried out a plan."""
    return Applies.of_rows(_rows(at, *APPLY_KINDS))


def plan_rows(config: MirrorConfig) -> list[dict[str, object]]:
    """Each plan of the ledger once, as it was recorded last, and how far it was carried out."""
    at = answers.snapshot(config, None)
    applies = read_applies(at)
    found: dict[str, dict[str, object]] = {}
    for row in _rows(at, OperationKind.PLAN):
        one = PlanRecorded.of_row(row)
        carried_out = applies.of_plan(one.plan_id)
        found[one.plan_id] = {
            "plan_id": one.plan_id,
            "kind": one.plan["kind"],
            "from": one.plan["from_cluster"],
            "to": one.plan["to_cluster"],
            "topics": len(one.plan["topics"]),
            "blockers": len(one.blockers),
            "recorded_at_ms": row["recorded_at_ms"],
            "operator": row["operator"],
            "applied": _applied(one, carried_out),
            "operation_id": carried_out[-1].operation_id if carried_out else None,
        }
    return list(found.values())


def _applied(recorded: PlanRecorded, carried_out: Sequence[Apply]) -> str:
    """How far a plan was carried out; of a row under the id of another plan that it is one."""
    if id_of(recorded.plan) != recorded.plan_id:
        return "another plan under this id"
    return str(carried_out[-1].state) if carried_out else "not applied"


def _rows(at: DeltaSnapshot, *kinds: str) -> list[dict[str, object]]:
    return at.rows(OPERATIONS.name, [("kind", "in", kinds)])
