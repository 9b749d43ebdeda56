"""Steps at the target: promoted, closed to the mirror, cut, handed over, with its groups in place."""

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck import engine
from ledger.app import answers
from ledger.app.acts.cut import cut_of_pair
from ledger.app.acts.directions import change_direction
from ledger.app.between_clusters import Way, translate_groups
from ledger.app.changeover.scene import Scene
from ledger.app.group_offsets import source_commits
from ledger.app.position_sheets import begun_of
from ledger.app.untranslated import untranslated_groups_at
from ledger.app.wiring import operator_operations
from ledger.domain.operations.directions import Promoted
from ledger.errors import PreconditionError
from ledger.operations import directions
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.groups.outcomes import Choice
from ledger.operations.groups.position_sheet import UNREAD_ADVICE, PositionSheet, compute_sheet, set_sheet
from ledger.operations.groups.receipts import SourceCommits, Why
from ledger.reports.rendering import oddities


def promote(scene: Scene, _waits: Waits) -> StepResult:
    """Direction changes, unless it has already."""
    plan = scene.plan
    made = change_direction(
        scene.config,
        Promoted,
        directions.Pair(plan.to_cluster, plan.from_cluster, plan.choices.topics),
        reason=scene.asked.reason,
        ticket=scene.asked.ticket,
        operation_id=scene.operation_id,
    )
    return StepResult(made.words, {"is_new": made.operation_id is not None})


def cut(scene: Scene, _waits: Waits) -> StepResult:
    """The ends of both sides, and where the maps stand."""
    pair = directions.Pair(scene.plan.to_cluster, scene.plan.from_cluster, scene.topics)
    taken = cut_of_pair(scene.config, pair, operation_id=scene.operation_id)
    return StepResult(taken.words, dict(taken.facts))


def move_groups(scene: Scene, _waits: Waits) -> StepResult:
    """Every group continues at the target where it has to; raises when one does not, and the others do."""
    way = Way(scene.plan.from_cluster, scene.plan.to_cluster)
    at = answers.snapshot(scene.config, None)
    sheet = _sheet(scene, at, way)
    left = SourceCommits(way.from_cluster, source_commits(engine.cluster_commits(at, way.from_cluster)))
    _, done = set_sheet(
        scene.target,
        sheet,
        operator_operations(scene.config),
        Why(None, sheet.cut, left, scene.asked.reason, scene.asked.ticket),
        operation_id=scene.operation_id,
        begun=begun_of(scene.config, scene.operation_id),
    )
    if not done.is_complete:
        raise PreconditionError(
            f"not every group continues at {way.to_cluster}, what could be set is set:\n  "
            + "\n  ".join(done.blockers)
            + "\nThen continue: mirror-ledger apply"
        )
    return StepResult(done.words, done.facts)


def _sheet(scene: Scene, at: DeltaSnapshot, way: Way) -> PositionSheet:
    """Of the groups and topics of the plan."""
    choices, topics = scene.plan.choices, set(scene.source_topics)
    rows = [
        row
        for row in translate_groups(at, way).to_pylist()
        if row["source_topic"] in topics and (choices.groups is None or row["group_id"] in choices.groups)
    ]
    unread = untranslated_groups_at(at, way.from_cluster, choices.groups or ()).to_pylist()
    return compute_sheet(
        scene.target,
        rows,
        Choice(choices.accepted, overwrite_newer=choices.overwrite_newer),
        oddities,
        from_cluster=way.from_cluster,
        cut=at.cut.token,
        unread_groups={row["group_id"]: row["status"] for row in unread if row["status"] in UNREAD_ADVICE},
    )


def shut_out(scene: Scene, _waits: Waits) -> StepResult:
    raise PreconditionError(f"{scene.plan.to_cluster}")


def hand_over(scene: Scene, _waits: Waits) -> StepResult:
    raise PreconditionError(f"{scene.plan.to_cluster}")
