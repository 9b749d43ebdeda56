"""Groups that an apply has moved: what was set for each, whether they still stand there, and back to what was before.

A commit is undone only while it is what was set. What a group has committed beyond it was read at the target: then
nothing is undone at all. What somebody has set to something lower, or removed, is left as it is and named.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledger.changeover.planning import accepted_when_moved
from ledger.changeover.plans import ChangeoverKind, Plan
from ledger.changeover.receipts import StepResult
from ledger.changeover.scope import Scope
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.changeovers import Sheet
from ledger.facts.group_offsets import OffsetsSet, OffsetsSetResult
from ledger.facts.groups import SHARE, CommitRefusal, NewCommit, Place
from ledger.facts.operations import OperationKind
from ledger.facts.ways import Direction
from ledger.kafka.cluster import ClusterAdmin
from ledger.offsets.between_clusters import Chosen
from ledger.offsets.setting import (
    NO_OUTPUTS,
    Basis,
    Choice,
    Outcome,
    OutputsOfGroups,
    Setting,
    TargetGroups,
    intentions,
    nothing_taken_over,
)
from ledger.offsets.sheets import Asked, PositionSheet, group_answers
from ledger.store.snapshots import DeltaSnapshot
from ledger.words import counted, listed

_MAY_BE_THERE = (Outcome.SET, Outcome.ALREADY_SET, Outcome.NOT_KEPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedCommit:
    """A commit that was set, or was about to be: `former` was there before (None: nothing), `to` what was set since."""

    group: str
    is_of_share_group: bool
    topic: str
    topic_id: str
    partition: int
    former: int | None
    to: tuple[int, ...]

    @property
    def place(self) -> Place:
        return self.group, self.topic, self.partition

    @property
    def words(self) -> str:
        return f"{self.group!r} at {self.topic} partition {self.partition}"


def moved_commits(rows: Iterable[Mapping[str, Any]]) -> list[MovedCommit]:
    """From rows of `operations` of one operation, in the order of their stamps.

    What was refused is none. Of several attempts the first one knows what was there before, unless somebody else has
    committed since. What stood at its place already was not set, and is among them by the sheet: who reads on there is
    at work.
    """
    moved: dict[Place, MovedCommit] = {}
    is_set: set[Place] = set()
    for row in rows:
        match row["kind"]:
            case OffsetsSet.kind:
                for one in _intended(OffsetsSet.of_row(row)):
                    moved[one.place] = _after(moved.get(one.place), one)
            case Sheet.kind:
                for one in _intended(Sheet.of_row(row).intended):
                    moved.setdefault(one.place, one)
            case OffsetsSetResult.kind:
                for place, result in _results(OffsetsSetResult.of_row(row)):
                    if result in _MAY_BE_THERE:
                        is_set.add(place)
                    elif place not in is_set:
                        moved.pop(place, None)
    return [moved[place] for place in sorted(moved)]


def _after(before: MovedCommit | None, one: MovedCommit) -> MovedCommit:
    if before is None or one.former not in before.to:
        return one if before is None else replace(one, to=before.to + one.to)
    return replace(before, to=before.to + one.to, topic_id=one.topic_id)


def _results(done: OffsetsSetResult) -> Iterator[tuple[Place, str]]:
    """Of what had an answer."""
    for one in done.results:
        if one.topic is not None and one.partition is not None:
            yield (done.group, one.topic, one.partition), one.result


def _intended(intended: OffsetsSet) -> list[MovedCommit]:
    return [
        MovedCommit(
            group=intended.group,
            is_of_share_group=intended.group_type == SHARE,
            topic=one.topic,
            topic_id=one.topic_id,
            partition=one.partition,
            former=one.former,
            to=(one.to,),
        )
        for one in intended.commits
    ]


def read_groups(target: ClusterAdmin, moved: Sequence[MovedCommit]) -> TargetGroups:
    """What the target says of them now."""
    shared = {one.group for one in moved if one.is_of_share_group}
    return TargetGroups.read(target, {one.group for one in moved} - shared, shared)


def why_at_work(target: ClusterAdmin, moved: Sequence[MovedCommit]) -> list[str]:
    """Why groups cannot be undone: they have members, are not shown, or have read on. A line each."""
    if not moved:
        return []
    there = read_groups(target, moved)
    groups = sorted({one.group for one in moved})
    lines = [f"group {group!r} has members at {target.alias}" for group in groups if there.has_members(group)]
    lines += [
        f"group {group!r} is not shown to the principal that asks"
        for group in groups
        if group in there.denied
    ]
    for one in moved:
        now = there.committed.get(one.place)
        if now is not None and now > max(one.to) and now != one.former and _is_same_topic(one, there):
            lines.append(f"{one.words} has committed {now}, and {one.to[-1]} was set")
    return lines


def take_groups_back(
    target: ClusterAdmin, moved: Sequence[MovedCommit], require_own: Callable[[], None] = nothing_taken_over
) -> StepResult:
    """Commits that are still what was set go back to what was there before, and are read back.

    `require_own`: asked before each group, raises where another process has taken over. Raises `PreconditionError`
    where a commit does not go back; the others have then. Metadata of a former commit is not known.
    """
    there = read_groups(target, moved) if moved else None
    to_restore: list[MovedCommit] = []
    left: list[str] = []
    for one in moved:
        assert there is not None, "it was read for what was moved"
        now = there.committed.get(one.place)
        if not _is_same_topic(one, there):
            left.append(f"{one.words}: the topic is another one")
        elif now == one.former:
            continue
        elif now not in one.to:
            left.append(f"{one.words}: somebody has {'removed it' if now is None else f'set it to {now}'}")
        elif one.former is None and one.is_of_share_group:
            left.append(f"{one.words}: remove its start offset (kafka-share-groups.sh --delete-offsets)")
        else:
            to_restore.append(one)
    refused = _restored(target, to_restore, require_own)
    kept = _not_restored(target, [one for one in to_restore if one.place not in refused])
    if refused or kept:
        raise PreconditionError(
            f"{counted(len(refused) + len(kept), 'commit')} of {target.alias} not restored; mend the cause, then "
            "continue: mirror-ledger undo OPERATION --reason WHY",
            *listed([*refused.values(), *kept]),
        )
    groups = len({one.group for one in moved})
    words = f"{counted(groups, 'group')} as before: {counted(len(to_restore), 'commit')} restored"
    if left:
        words += f"; left: {'; '.join(left)}"
    facts = [
        {
            "group": one.group,
            "topic": one.topic,
            "partition": one.partition,
            "from": one.to[-1],
            "to": one.former,
        }
        for one in to_restore
    ]
    return StepResult(words, {"restored": facts, "left": left})


def _is_same_topic(one: MovedCommit, there: TargetGroups) -> bool:
    return there.topic_ids.get(one.topic) == one.topic_id


def _restored(
    target: ClusterAdmin, to_restore: Sequence[MovedCommit], require_own: Callable[[], None]
) -> dict[Place, str]:
    """What the target refused, in words; and what is not what was set any more, read right before its group."""
    lines: dict[Place, str] = {}
    by_group: dict[str, list[MovedCommit]] = defaultdict(list)
    for one in to_restore:
        by_group[one.group].append(one)
    for group, of_group in sorted(by_group.items()):
        require_own()
        new = [
            NewCommit(one.topic, one.partition, one.former, None, replaces=one.to)
            for one in of_group
            if one.former is not None
        ]
        removed = [one for one in of_group if one.former is None]
        there = read_groups(target, removed).committed if removed else {}
        deleted = [(one.topic, one.partition) for one in removed if there.get(one.place) in one.to]
        lines |= {
            one.place: f"{one.words}: {CommitRefusal.MOVED}"
            for one in removed
            if there.get(one.place) not in (None, *one.to)
        }
        refused: dict[tuple[str, int], CommitRefusal] = {}
        if new:
            set_all = target.set_share_offsets if of_group[0].is_of_share_group else target.set_commits
            refused |= set_all(group, new)
        if deleted:
            refused |= target.delete_commits(group, deleted)
        for one in of_group:
            if (why := refused.get((one.topic, one.partition))) is not None:
                lines[one.place] = f"{one.words}: {why}{_permission_lacking(why, one)}"
    return lines


def _permission_lacking(why: CommitRefusal, one: MovedCommit) -> str:
    """A commit that there was not before is deleted, which needs more than to commit."""
    if why is not CommitRefusal.GROUP_DENIED:
        return ""
    needed = "DELETE" if one.former is None else "READ"
    return f", the mirror's principal needs {needed} on the group"


def _not_restored(target: ClusterAdmin, restored: Sequence[MovedCommit]) -> list[str]:
    if not restored:
        return []
    there = read_groups(target, restored)
    return [
        f"{one.words}: read back {there.committed.get(one.place)} instead of {one.former}"
        for one in restored
        if there.committed.get(one.place) != one.former
    ]


# Sheets -------------------------------------------------------------------------------------------
# Sheets of a plan as they are recorded: where each group is to continue, with the commit that it comes
# from.


_AT_THEIR_PLACE = (Outcome.SET, Outcome.ALREADY_SET, Outcome.READS_ON, Outcome.TO_BE_SET)


def sheets_of(plan_id: str, settings: Sequence[Setting], *, target_cluster: str, basis: Basis) -> list[Sheet]:
    """One for each group of which something is at its place; `basis` as it is set with."""
    placed = [replace(one, outcome=Outcome.TO_BE_SET) for one in settings if one.outcome in _AT_THEIR_PLACE]
    return [
        Sheet(plan_id=plan_id, intended=one)
        for one in intentions(placed, target_cluster=target_cluster, basis=basis)
    ]


# Put together -------------------------------------------------------------------------------------
# Sheets of plans: whose places are asked for, and where each group is to continue, recorded and read again.


def places_of(config: MirrorConfig, plan: Plan, scope: Scope) -> Asked:
    """Of all groups that move, at all partitions that they read at the former source."""
    return Asked(
        Direction(plan.from_cluster, plan.to_cluster),
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
    answers = group_answers(at, Asked(Direction(plan.from_cluster, plan.to_cluster), Choice()))
    groups = frozenset(str(row["group_id"]) for row in scope.moving(answers) if row["group_id"] is not None)
    return groups, scope.read_topics(answers)


def record_sheets(context: Context, plan_id: str, sheet: PositionSheet, basis: Basis) -> None:
    """What `verify` compares with later."""
    sheets = sheets_of(plan_id, sheet.settings, target_cluster=sheet.to_cluster, basis=basis)
    if sheets:
        context.record(*sheets)


def last_sheets(context: Context, operation_id: str) -> dict[str, OffsetsSet]:
    """By group what the last sheet says that an operation recorded."""
    rows = context.operations_of(operation_id, OperationKind.SHEET)
    sheets = [Sheet.of_row(row).intended for row in rows]
    return {one.group: one for one in sheets}


def moved_by(context: Context, operation_id: str) -> list[MovedCommit]:
    """What an operation set, or found at its place, and what was there before."""
    return moved_commits(context.operations_of(operation_id))
