"""Position sheets: where all groups of a cluster continue at another, shown, set and read back."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import DeltaSnapshot, open_ledger
from ledger.adapters.duck import between_clusters, engine
from ledger.adapters.duck.group_commits import last_group_syncs
from ledger.adapters.duck.share_offsets import share_commits
from ledger.adapters.system import SystemClock
from ledger.app.between_clusters import Way, answers_beside_outputs, require_way, translate_groups
from ledger.app.group_offsets import ALL, Chosen, source_commits
from ledger.app.untranslated import unread_groups_at
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.groups import SHARE
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.operations.directions import require_not_left
from ledger.operations.figures.repeats import require_few_repeats
from ledger.operations.groups.beside_outputs import OutputsOfGroups
from ledger.operations.groups.commit_watch import (
    Watch,
    is_used,
    read_on_since,
    watch_kept,
    watch_stillness,
    without_busy,
)
from ledger.operations.groups.group_sync import synced_before
from ledger.operations.groups.offset_setting import Rules, nothing_taken_over
from ledger.operations.groups.outcomes import Choice, Outcome, Place, Row
from ledger.operations.groups.position_sheet import PositionSheet, compute_sheet, set_sheet
from ledger.operations.groups.receipts import (
    NO_ATTEMPTS,
    EarlierAttempts,
    SourceCommits,
    Why,
    results,
    seen_at,
)
from ledger.ports.clusters import ClusterAdmin
from ledger.ports.ledger import OperationLog, require_recorded
from ledger.reports.rendering import oddities
from ledger.schema import OPERATIONS


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose places are asked for: of which groups and partitions, what of these answers alone (`scope`, None: all), and
    what of the answers is accepted. Groups of `outputs` continue where what they have written was copied."""

    way: Way
    choice: Choice
    chosen: Chosen = ALL
    outputs: OutputsOfGroups = field(default_factory=dict)
    scope: Callable[[Sequence[Row]], Sequence[Row]] | None = None

    def among(self, rows: Sequence[Row]) -> list[Row]:
        """The answers that are asked for."""
        chosen = [row for row in rows if self._holds(row)]
        return chosen if self.scope is None else list(self.scope(chosen))

    def _holds(self, row: Row) -> bool:
        chosen = self.chosen
        return (
            (not chosen.groups or row["group_id"] in chosen.groups)
            and chosen.topic in (None, row["source_topic"])
            and chosen.partition in (None, row["source_partition"])
        )


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
        return computed_sheet(at, target, asked)


def set_positions(
    config: MirrorConfig,
    at: DeltaSnapshot,
    asked: Asked,
    reasons: Reasons,
    *,
    before: Watch | None = None,
    after: Watch | None = None,
    after_where_used: bool = False,
    require: Callable[[PositionSheet], None] = lambda _sheet: None,
    require_own: Callable[[], None] = nothing_taken_over,
) -> tuple[str | None, PositionSheet, Why]:
    """The same, set and read back; returns the operation id, None: nothing was lacking, and what was recorded with it.
    `require` raises before that.

    With an operation id that an earlier attempt had, what that one had begun gets its result. `before`: how commits
    are watched where groups leave, `after`: where they were set; None: they are not. `after_where_used`: they are read
    once where none of the groups had a commit there that was not a driver's: nobody was at work there. `require_own`:
    as `set_and_record` asks it.
    """
    with _target(config, at, asked.way) as target:
        sheet = computed_sheet(at, target, asked)
        require(sheet)
        if before is not None:
            sheet = _still(config, sheet, before)
        operations = operator_operations(config)
        why = why_set(at, sheet, reasons)
        operation_id, sheet = set_sheet(
            target,
            sheet,
            operations,
            why,
            _rules(at, asked),
            operation_id=reasons.operation_id,
            attempts=_earlier_attempts(config, reasons.operation_id),
            require_own=require_own,
        )
        if after is not None:
            if after_where_used and not is_used(sheet, _synced(at, asked.way.to_cluster)):
                after = replace(after, quiet_s=0.0)
            sheet = _kept(target, sheet, after, operations, operation_id, why)
        return operation_id, sheet, why


def require_settable(
    config: MirrorConfig, way: Way, answers: Sequence[Row], *, despite_objectives: bool
) -> None:
    """Raise `PreconditionError` where offsets are not to be set by hand: applications have left the cluster for one
    that is promoted, or a group would read more again than `max_repeats_per_group` allows."""
    topics = {row["target_topic"] for row in answers} - {None}
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    require_not_left(
        way.to_cluster, topics, config.clusters, state.directions(), undone="no offset was set there"
    )
    if not despite_objectives:
        known = [row for row in answers if "repeated" in row]  # one flow's answer does not say it
        require_few_repeats(known, config.allowed, way=(way.from_cluster, way.to_cluster))


def why_set(at: DeltaSnapshot, sheet: PositionSheet, reasons: Reasons) -> Why:
    """What is recorded with a sheet: where its groups come from, and the operator's words."""
    left, seen = _left(at, sheet.from_cluster), seen_at(at.cut, sheet.to_cluster)
    return Why(None, sheet.cut, left, reasons.reason, reasons.ticket, seen)


def quiet_seconds(config: MirrorConfig, way: Way) -> float:
    """How long commits are watched where nobody says how long: two intervals of their recorders."""
    names = {way.from_cluster, way.to_cluster}
    touching = [flow for flow in config.flows.values() if names & {flow.source, flow.target}]
    return 2 * max((flow.checkpoint_seconds for flow in touching), default=5.0)


def watch_for(quiet_s: float, say: Callable[[str], None]) -> Watch:
    """By this machine's clock; what moves has three times as long to come to rest."""
    return Watch(SystemClock(), time.sleep, quiet_s, 3 * quiet_s, poll_s=min(1.0, quiet_s / 5), say=say)


def _left(at: DeltaSnapshot, cluster: str) -> SourceCommits:
    shared = engine.cluster_commits(at, cluster, {"checkpoints": share_commits(at)})
    return SourceCommits(
        cluster, source_commits(shared) | source_commits(engine.cluster_commits(at, cluster))
    )


def _still(config: MirrorConfig, sheet: PositionSheet, watch: Watch) -> PositionSheet:
    """Without groups that are at work where they leave; where that cluster does not answer it is said."""
    try:
        with cluster_admin(config, sheet.from_cluster) as source:
            require_recorded(DeltaLedgerState(open_ledger(config.ledger.path)), source)
            found = watch_stillness(source, watch, *sheet.groups)
            unrecorded = read_on_since(source, sheet)
    except ClusterUnavailableError:
        watch.say(f"{sheet.from_cluster} does not answer: whether groups commit there still is unknown")
        return sheet
    watch.say(found.words)
    if unrecorded:
        watch.say(f"commits of {', '.join(sorted(unrecorded))} at {sheet.from_cluster} are not recorded yet")
    return without_busy(sheet, found.busy | unrecorded)


def _kept(
    target: ClusterAdmin,
    sheet: PositionSheet,
    watch: Watch,
    operations: OperationLog,
    operation_id: str | None,
    why: Why,
) -> PositionSheet:
    """With what others commit over; it is recorded with what was set."""
    sheet = watch_kept(target, watch, sheet)
    moved = [one for one in sheet.settings if one.outcome is Outcome.MOVED_BY_OTHERS]
    if moved and operation_id is not None:
        operations.record_parts(
            results(moved), operation_id=operation_id, flow=None, reason=why.reason, ticket=why.ticket
        )
    return sheet


@contextmanager
def _target(config: MirrorConfig, at: DeltaSnapshot, way: Way) -> Iterator[ClusterAdmin]:
    require_way(config, at, way)
    with cluster_admin(config, way.to_cluster) as target:
        require_recorded(DeltaLedgerState(open_ledger(config.ledger.path)), target)
        yield target


def computed_sheet(at: DeltaSnapshot, target: ClusterAdmin, asked: Asked) -> PositionSheet:
    """Where groups land as of a cut, compared with what the target has now; changes nothing."""
    here = asked.way.from_cluster
    return compute_sheet(
        target,
        group_answers(at, asked),
        _rules(at, asked),
        from_cluster=here,
        cut=at.cut.token,
        unread_groups=unread_groups_at(at, here, asked.chosen.groups),
    )


def _rules(at: DeltaSnapshot, asked: Asked) -> Rules:
    return Rules(asked.choice, oddities, _synced(at, asked.way.to_cluster))


def _synced(at: DeltaSnapshot, cluster: str) -> dict[Place, Collection[int]]:
    """By place what a driver has committed last for a group at a cluster, or may have."""
    found = synced_before(last_group_syncs(at, cluster))
    return {place: synced.own for place, synced in found.items()}


def group_answers(at: DeltaSnapshot, asked: Asked) -> list[Row]:
    """Of groups that commit and of share groups; raises `PreconditionError` where one that is asked for has neither."""
    shared = _share_answers(at, asked)
    found = translate_groups(at, asked.way, outputs=asked.outputs).to_pylist()
    chosen = asked.among([*found, *shared])
    if not chosen and asked.chosen != ALL:
        raise PreconditionError(
            f"the ledger has no committed offset of {asked.chosen} at {asked.way.from_cluster}; nothing was set"
        )
    if missing := sorted({*asked.chosen.groups} - {row["group_id"] for row in chosen}):
        raise PreconditionError(
            f"the ledger has no committed offset, or share-partition start offset, of {', '.join(missing)} at "
            f"{asked.way.from_cluster} that is asked for; nothing was set"
        )
    return chosen


def _share_answers(at: DeltaSnapshot, asked: Asked) -> list[Row]:
    """What share-partition start offsets come to, by the same rule; nothing is known of moves of share groups."""
    commits = share_commits(at)
    if commits.num_rows == 0:
        return []
    way = (asked.way.from_cluster, asked.way.to_cluster)
    groups = {row["group_id"] for row in commits.to_pylist() if row["cluster"] == way[0]}
    found = between_clusters.translate(at, way, overrides={"checkpoints": commits}).to_pylist()
    rows: list[Row] = [{**row, "group_type": SHARE} for row in found if row["group_id"] in groups]
    outputs = {group: asked.outputs[group] for group in groups & asked.outputs.keys()}
    if not outputs:
        return rows
    found = answers_beside_outputs(at, asked.way, rows, outputs, overrides={"checkpoints": commits})
    return [{**row, "group_type": SHARE} for row in found]


def _earlier_attempts(config: MirrorConfig, operation_id: str | None) -> EarlierAttempts:
    """What attempts under the operation id came to."""
    if operation_id is None:
        return NO_ATTEMPTS
    newest = open_ledger(config.ledger.path).now((OPERATIONS.name,))
    return EarlierAttempts.of_rows(newest.rows(OPERATIONS.name, [("operation_id", "=", operation_id)]))
