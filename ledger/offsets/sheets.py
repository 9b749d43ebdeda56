"""Position sheets: where all groups of a cluster continue at another, shown, set and read back."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ledger.clock import Clock, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import Figure, Objective, Objectives, objections
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import SHARE, Place
from ledger.facts.ways import Direction
from ledger.kafka.cluster import ClusterAdmin, require_recorded
from ledger.offsets.between_clusters import (
    ALL,
    Chosen,
    answers_beside_outputs,
    last_group_syncs,
    require_direction,
    share_commits,
    source_commits,
    translate,
    translate_groups,
    unread_groups_at,
)
from ledger.offsets.metadata import metadata_in_step
from ledger.offsets.setting import (
    ADVICE,
    NO_ATTEMPTS,
    OTHER_GROUPS,
    UNREAD_ADVICE,
    Answer,
    Basis,
    Choice,
    EarlierAttempts,
    Outcome,
    OutputsOfGroups,
    Rules,
    Setting,
    SourceCommits,
    TargetGroups,
    last_commit,
    may_repeat_more,
    not_below_log_start,
    nothing_taken_over,
    reading_on,
    repeated_of,
    result_row,
    results,
    seen_at,
    set_and_record,
    synced_before,
)
from ledger.offsets.statuses import TranslationStatus
from ledger.store import narrowed, sql
from ledger.store.snapshots import DeltaSnapshot
from ledger.words import counted, duration, instant, some_of

# Position sheet -----------------------------------------------------------------------------------
# The position sheet: where every group of a cluster continues at another, compared with what that one has
# now.
#
# It is computed from answers of `offset_translation` and from the target itself, and set as it is: nothing
# that is in it depends on who asks. Computed again it says what is lacking still, so whoever sets it again,
# after a crash too, comes to the same end.


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionSheet:
    """Of each partition of each group where it lands at `to_cluster`, and what became of it, or would.

    `unread_groups`: by group why nobody knows where it stands (`UNREAD_ADVICE`), where that was not accepted; of groups
    that nobody may know of under `OTHER_GROUPS`. `cut`: of the answers.
    """

    from_cluster: str
    to_cluster: str
    cut: str
    settings: tuple[Setting, ...]
    unread_groups: Mapping[str, str]

    @property
    def groups(self) -> tuple[frozenset[str], frozenset[str]]:
        """Groups that commit, and share groups."""
        shared = frozenset(one.group_id for one in self.settings if one.is_of_share_group)
        return frozenset(one.group_id for one in self.settings) - shared, shared

    @property
    def answers(self) -> list[Answer]:
        """What the settings are made from, in their order."""
        return [one.answer for one in self.settings]

    @property
    def left_out(self) -> list[Setting]:
        """What is not as answered, and keeps its group from continuing where it should."""
        return [one for one in self.settings if not one.outcome.is_as_wanted]

    @property
    def is_complete(self) -> bool:
        """Whether every group continues where it should."""
        return not self.left_out and not self.unread_groups

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions have each outcome."""
        return dict(sorted(Counter(str(one.outcome) for one in self.settings).items()))

    @property
    def blockers(self) -> list[str]:
        """Why groups do not continue where they should, a line each with what to do."""
        found = sorted(Counter(one.outcome for one in self.left_out).items())
        lines = [f"{count} {outcome}: {ADVICE[outcome]}" for outcome, count in found]
        unread = sorted(Counter(self.unread_groups.values()).items())
        return [*lines, *(f"{count} groups {status}: {UNREAD_ADVICE[status]}" for status, count in unread)]

    def left_lines(self, most: int = 20) -> list[str]:
        """What is not as answered, a line for each partition, at most so many."""
        lines = [f"{one.words}: {one.outcome}" for one in self.left_out]
        lines += unread_words(self.unread_groups)
        more = len(lines) - most
        return lines if more <= 0 else [*lines[:most], f"and {more} more"]

    @property
    def words(self) -> str:
        groups = counted(len({one.group_id for one in self.settings}), "group")
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items()) or "none"
        unread = (
            f"; {counted(len(self.unread_groups), 'group')} that nobody can read"
            if self.unread_groups
            else ""
        )
        return f"{groups} from {self.from_cluster} to {self.to_cluster}: partitions: {outcomes}{unread}"

    @property
    def lines(self) -> list[dict[str, object]]:
        """A line for each partition of each group, for tables and receipts."""
        return [
            {
                **result_row(one),
                "repeated": one.answer.get("repeated"),
                "outputs": one.answer.get("outputs"),
                "group_type": SHARE if one.is_of_share_group else None,
            }
            for one in self.settings
        ]

    @property
    def facts(self) -> dict[str, object]:
        """What a receipt says of it, beside its lines."""
        return {
            "from_cluster": self.from_cluster,
            "to_cluster": self.to_cluster,
            "cut": self.cut,
            "groups": len({one.group_id for one in self.settings}),
            "partitions": self.counts,
            "repeated": repeated_of(one.answer for one in self.settings),
            "repeated_bound": AT_LEAST if may_repeat_more(one.answer for one in self.settings) else None,
            "unread_groups": dict(self.unread_groups),
        }


def unread_words(unread: Mapping[str, str]) -> list[str]:
    """A line for each group that nobody knows of, and for those that were not listed."""
    return [
        f"{'other groups' if group == OTHER_GROUPS else repr(group)}: {status}"
        for group, status in sorted(unread.items())
    ]


def compute_sheet(
    target: ClusterAdmin,
    answers: Iterable[Answer],
    rules: Rules,
    *,
    from_cluster: str,
    cut: str,
    unread_groups: Mapping[str, str],
) -> PositionSheet:
    """What would become of each answer; reads the target and changes nothing.

    Raises `ClusterUnavailableError` or `PreconditionError` where the target does not tell what it has.
    """
    rows = not_below_log_start(with_empty_partitions(list(answers), target), target)
    share_groups = {str(row["group_id"]) for row in rows if row.get("group_type") == SHARE}
    groups = TargetGroups.read(target, {str(row["group_id"]) for row in rows} - share_groups, share_groups)
    return PositionSheet(
        from_cluster=from_cluster,
        to_cluster=target.alias,
        cut=cut,
        settings=tuple(rules.judged(rows, groups)),
        unread_groups={
            group: status for group, status in unread_groups.items() if status not in rules.choice.accepted
        },
    )


def with_empty_partitions(answers: Sequence[Answer], target: ClusterAdmin) -> list[Answer]:
    """Which partitions without a commit are empty at the target now: there is nothing that the group could skip."""
    uncommitted = (TranslationStatus.NO_COMMIT, TranslationStatus.NO_COMMIT_EMPTY)
    asked = [
        (row["target_topic"], row["target_partition"])
        for row in answers
        if row["status"] in uncommitted and row["target_offset"] is not None
    ]
    ends = target.ends(sorted(set(asked))) if asked else {}

    def status_of(row: Answer) -> str:
        found = ends.get((row["target_topic"], row["target_partition"]))
        is_empty = found is not None and found.log_start == found.high_watermark == row["target_offset"]
        return str(TranslationStatus.NO_COMMIT_EMPTY if is_empty else TranslationStatus.NO_COMMIT)

    return [{**row, "status": status_of(row)} if row["status"] in uncommitted else row for row in answers]


# Commit watch -------------------------------------------------------------------------------------
# Watching what groups commit: whether they stand still where they leave, and whether what was set stays.
#
# Consumers that assign partitions to themselves (`assign()`) are no members, so brokers always call their
# group empty: only that its commits move tells of them. Before offsets are set elsewhere the commits have
# to stand still; afterwards one that leaves its place while the group has no members is such a consumer at
# work.


@dataclass(frozen=True, slots=True)
class Watch:
    """How long commits have to stand still, how often they are read, and how long is waited for it at most."""

    clock: Clock
    sleep: Callable[[float], None]
    quiet_s: float
    limit_s: float
    poll_s: float = 1.0
    say: Callable[[str], None] = lambda _line: None

    def readings(self) -> Iterator[float]:
        """The seconds since the first reading, at each reading, until the limit has come."""
        began = self.clock.monotonic()
        while True:
            passed = self.clock.monotonic() - began
            yield passed
            if passed >= self.limit_s:
                return
            self.sleep(min(self.poll_s, max(self.limit_s - passed, 0.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """What was seen of groups at the cluster that they leave, until all stood still or the time was over.

    `moving`: groups whose commits moved in the last `quiet_s` that were watched. `with_members`: groups that have
    members at the end, or of which the cluster does not say.
    """

    cluster: str
    groups: int
    watched_s: float
    moving: frozenset[str]
    with_members: frozenset[str]

    @property
    def busy(self) -> frozenset[str]:
        """Groups that are still at work there, as far as can be seen."""
        return self.moving | self.with_members

    @property
    def words(self) -> str:
        watched = f"{counted(self.groups, 'group')} at {self.cluster}, watched for {self.watched_s:.0f} s"
        if not self.busy:
            return f"{watched}: none has members, and no commit moved"
        without = sorted(self.moving - self.with_members)
        reported = [f"{len(self.with_members)} have members"] if self.with_members else []
        if without:
            names = some_of(without, "group", at_most=5)
            reported.append(f"{len(without)} commit without members (assign()): {names}")
        return f"{watched}: {', '.join(reported)}"


def watch_stillness(
    source: ClusterAdmin, watch: Watch, groups: Collection[str], share_groups: Collection[str] = ()
) -> Stillness:
    """Wait until no commit of the groups has moved for `quiet_s`, and none has members; at most `limit_s`.

    Raises `ClusterUnavailableError` where the cluster does not answer: then nobody knows.
    """
    found = TargetGroups.read(source, groups, share_groups)
    watched_s = 0.0
    moved_at: dict[str, float] = {}

    def moving() -> frozenset[str]:
        return frozenset(group for group, at_s in moved_at.items() if watched_s - at_s < watch.quiet_s)

    for watched_s in watch.readings():
        last, found = found, TargetGroups.read(source, groups, share_groups)
        if moved := _moved(last, found):
            moved_at |= dict.fromkeys(moved, watched_s)
            watch.say(f"commits of {some_of(sorted(moved), 'group', at_most=5)} move at {source.alias}")
        if watched_s >= watch.quiet_s and not moving() and not _with_members(found):
            break
    return Stillness(
        cluster=source.alias,
        groups=len({*groups, *share_groups}),
        watched_s=watched_s,
        moving=moving(),
        with_members=_with_members(found),
    )


def _moved(last: TargetGroups, found: TargetGroups) -> frozenset[str]:
    """Groups of which a commit was made, changed or removed between two readings."""
    return frozenset(
        group
        for group, topic, partition in last.committed.keys() | found.committed.keys()
        if last.committed.get((group, topic, partition)) != found.committed.get((group, topic, partition))
    )


def _with_members(found: TargetGroups) -> frozenset[str]:
    return frozenset(group for group in found.listed if found.has_members(group))


def without_busy(sheet: PositionSheet, busy: Collection[str]) -> PositionSheet:
    """Nothing is to be set for groups that are at work where they leave."""
    return replace(sheet, settings=tuple(_not_busy(one, busy) for one in sheet.settings))


def read_on_since(source: ClusterAdmin, sheet: PositionSheet) -> frozenset[str]:
    """Groups that stand elsewhere at the cluster that they leave than the answers say: nobody has recorded it yet."""
    groups, share_groups = sheet.groups
    now = TargetGroups.read(source, groups, share_groups).committed
    return frozenset(
        one.group_id
        for one in sheet.settings
        if one.outcome is Outcome.TO_BE_SET
        and one.answer["absence"] is None
        and now.get((one.group_id, one.answer["source_topic"], one.answer["source_partition"]))
        != last_commit(one.answer)
    )


def _not_busy(one: Setting, busy: Collection[str]) -> Setting:
    is_hindered = one.outcome is Outcome.TO_BE_SET and one.group_id in busy
    return replace(one, outcome=Outcome.STILL_READING) if is_hindered else one


def is_used(settings: Iterable[Setting], synced: Mapping[Place, Collection[int]]) -> bool:
    """Whether a group that was set, or is to be, had a commit at the target that is not what a driver has `synced`:
    somebody may commit there still, by `assign()`."""
    return any(
        one.former is not None and one.former not in synced.get(one.place, ())
        for one in settings
        if one.outcome in (Outcome.TO_BE_SET, Outcome.SET, Outcome.ALREADY_SET)
    )


def watch_kept(target: ClusterAdmin, watch: Watch, sheet: PositionSheet) -> PositionSheet:
    """Whether what was set stays for `quiet_s`: a commit that leaves it while its group has no members is of others.

    A group that has members by now was started, and reads on from where it was set. Raises `ClusterUnavailableError`
    where the target does not answer any more.
    """
    moved: set[Place] = set()
    groups, share_groups = sheet.groups
    for watched_s in watch.readings():
        there = TargetGroups.read(target, groups, share_groups)
        taken = {one.place for one in sheet.settings if _is_taken(one, there)} - moved
        if taken:
            names = some_of(sorted({place[0] for place in taken}), "group", at_most=5)
            watch.say(f"commits of {names} move at {target.alias}")
        moved |= taken
        if watched_s >= watch.quiet_s:
            break
    return replace(sheet, settings=tuple(_judged(one, moved) for one in sheet.settings))


def _is_taken(one: Setting, there: TargetGroups) -> bool:
    is_placed = one.outcome in (Outcome.SET, Outcome.ALREADY_SET)
    return (
        is_placed
        and there.committed.get(one.place) != one.answer["target_offset"]
        and not there.has_members(one.group_id)
    )


def _judged(one: Setting, moved: Collection[Place]) -> Setting:
    is_moved = one.outcome in (Outcome.SET, Outcome.ALREADY_SET) and one.place in moved
    return replace(one, outcome=Outcome.MOVED_BY_OTHERS) if is_moved else one


# Position sheets ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose places are asked for: of which groups and partitions, what of these answers alone (`scope`, None: all), and
    what of the answers is accepted. Groups of `outputs` continue where what they have written was copied."""

    way: Direction
    choice: Choice
    chosen: Chosen = ALL
    outputs: OutputsOfGroups = field(default_factory=dict)
    scope: Callable[[Sequence[Answer]], Sequence[Answer]] | None = None

    def among(self, rows: Sequence[Answer]) -> list[Answer]:
        """The answers that are asked for."""
        chosen = [row for row in rows if self._holds(row)]
        return chosen if self.scope is None else list(self.scope(chosen))

    def _holds(self, row: Answer) -> bool:
        chosen = self.chosen
        return (
            (not chosen.groups or row["group_id"] in chosen.groups)
            and chosen.topic in (None, row["source_topic"])
            and chosen.partition in (None, row["source_partition"])
        )


def position_sheet(context: Context, at: DeltaSnapshot, asked: Asked) -> PositionSheet:
    """Where groups land as of a cut, compared with what the target has now; changes nothing.

    Raises as `translate_groups` does, and when another cluster answers than the recorded one.
    """
    return computed_sheet(at, _target(context, at, asked.way), asked)


def set_positions(
    context: Context,
    at: DeltaSnapshot,
    asked: Asked,
    *,
    before: Watch | None = None,
    after: Watch | None = None,
    after_where_used: bool = False,
    require: Callable[[Sequence[Answer]], None] = lambda _answers: None,
    require_own: Callable[[], None] = nothing_taken_over,
) -> tuple[str | None, PositionSheet, Basis]:
    """The same, set and read back; returns the operation id, None: nothing was lacking, and what was recorded of where
    the offsets come from. `require` raises before the target is asked for anything.

    A group that an earlier attempt had set, and that was started since, reads on and is left alone. What cannot be set
    is said in the sheet that is returned, and is not an error here. Raises `ClusterUnavailableError` when the target
    dies in between: what it has then is found by doing it again.

    With an operation id that an earlier attempt had, what that one had begun gets its result. `before`: how commits
    are watched where groups leave, `after`: where they were set; None: they are not. `after_where_used`: they are read
    once where none of the groups had a commit there that was not a driver's: nobody was at work there. `require_own`:
    as `set_and_record` asks it.
    """
    answers = group_answers(at, asked)
    require(answers)
    target = _target(context, at, asked.way)
    sheet = _metadata_in_step(context, computed_sheet(at, target, asked, answers), asked)
    if before is not None:
        sheet = _still(context, sheet, before)
    basis = replace(basis_of(at, sheet), flow=asked.chosen.flow)
    attempts = _earlier_attempts(context)
    operation_id, done = set_and_record(
        target,
        [reading_on(one, attempts) for one in sheet.settings],
        context.operations,
        basis,
        context.why,
        _rules(at, asked),
        attempts=attempts,
        require_own=require_own,
    )
    sheet = replace(sheet, settings=tuple(done))
    if after is not None:
        if after_where_used and not is_used(sheet.settings, synced_at(at, asked.way.target)):
            after = replace(after, quiet_s=0.0)
        sheet = _kept(context.part_of(operation_id), target, sheet, after)
    return operation_id, sheet, basis


def _metadata_in_step(context: Context, sheet: PositionSheet, asked: Asked) -> PositionSheet:
    """The sheet with metadata of commits where it may be kept."""
    between = [
        one.name for one in context.config.flows.values() if Direction(one.source, one.target) == asked.way
    ]
    names = between if asked.chosen.flow is None else [asked.chosen.flow]
    flows = [partial(context.state.recorded_syncs, name) for name in names]
    kept = metadata_in_step(sheet.answers, flows)
    settings = zip(sheet.settings, kept, strict=True)
    return replace(sheet, settings=tuple(replace(one, answer=answer) for one, answer in settings))


def basis_of(at: DeltaSnapshot, sheet: PositionSheet) -> Basis:
    """What is recorded with a sheet: where its groups come from."""
    left, seen = _left(at, sheet.from_cluster), seen_at(at.cut, sheet.to_cluster)
    return Basis(None, sheet.cut, left, seen)


def quiet_seconds(config: MirrorConfig, way: Direction) -> float:
    """How long commits are watched where nobody says how long: two intervals of their recorders."""
    names = {way.source, way.target}
    touching = [flow for flow in config.flows.values() if names & {flow.source, flow.target}]
    return 2 * max((flow.checkpoint_seconds for flow in touching), default=5.0)


def watch_for(quiet_s: float, say: Callable[[str], None]) -> Watch:
    """By this machine's clock; what moves has three times as long to come to rest."""
    return Watch(SystemClock(), time.sleep, quiet_s, 3 * quiet_s, poll_s=min(1.0, quiet_s / 5), say=say)


def _left(at: DeltaSnapshot, cluster: str) -> SourceCommits:
    shared = sql.cluster_commits(at, cluster, {"checkpoints": share_commits(at)})
    last = sql.cluster_commits(at, cluster, narrowed.summed(at, sql.READ_FOR_COMMITS))
    return SourceCommits(cluster, source_commits(shared) | source_commits(last))


def _still(context: Context, sheet: PositionSheet, watch: Watch) -> PositionSheet:
    """Without groups that are at work where they leave; where that cluster does not answer it is said."""
    try:
        source = context.cluster(sheet.from_cluster)
        require_recorded(context.state, source)
        found = watch_stillness(source, watch, *sheet.groups)
        unrecorded = read_on_since(source, sheet)
    except ClusterUnavailableError:
        watch.say(f"{sheet.from_cluster} does not answer: whether groups commit there still is unknown")
        return sheet
    watch.say(found.words)
    if unrecorded:
        watch.say(f"commits of {', '.join(sorted(unrecorded))} at {sheet.from_cluster} are not recorded yet")
    return without_busy(sheet, found.busy | unrecorded)


def _kept(context: Context, target: ClusterAdmin, sheet: PositionSheet, watch: Watch) -> PositionSheet:
    """With what others commit over; it is recorded with what was set."""
    sheet = watch_kept(target, watch, sheet)
    moved = [one for one in sheet.settings if one.outcome is Outcome.MOVED_BY_OTHERS]
    if moved and context.why.operation_id is not None:
        context.record(*results(moved))
    return sheet


def _target(context: Context, at: DeltaSnapshot, way: Direction) -> ClusterAdmin:
    require_direction(context.config, at, way)
    target = context.cluster(way.target)
    require_recorded(context.state, target)
    return target


def computed_sheet(
    at: DeltaSnapshot, target: ClusterAdmin, asked: Asked, answers: Sequence[Answer] | None = None
) -> PositionSheet:
    """Where groups land as of a cut, compared with what the target has now; changes nothing.

    `answers` None: those of `group_answers`.
    """
    here = asked.way.source
    return compute_sheet(
        target,
        group_answers(at, asked) if answers is None else answers,
        _rules(at, asked),
        from_cluster=here,
        cut=at.cut.token,
        unread_groups=unread_groups_at(at, here, asked.chosen.groups),
    )


def _rules(at: DeltaSnapshot, asked: Asked) -> Rules:
    return Rules(asked.choice, synced_at(at, asked.way.target))


def synced_at(at: DeltaSnapshot, cluster: str) -> dict[Place, Collection[int]]:
    """By place what a driver has committed last for a group at a cluster, or may have."""
    found = synced_before(last_group_syncs(at, cluster))
    return {place: synced.own for place, synced in found.items()}


def group_answers(at: DeltaSnapshot, asked: Asked) -> list[Answer]:
    """Of groups that commit and of share groups; raises `PreconditionError` where one that is asked for has neither."""
    shared = _share_answers(at, asked)
    of_flow = Chosen(flow=asked.chosen.flow)
    found = translate_groups(at, asked.way, of_flow, outputs=asked.outputs).to_pylist()
    chosen = asked.among([*found, *shared])
    if not chosen and not asked.chosen.is_all:
        raise PreconditionError(
            f"the ledger has no committed offset of {asked.chosen} at {asked.way.source}; nothing was set"
        )
    if missing := sorted({*asked.chosen.groups} - {row["group_id"] for row in chosen}):
        raise PreconditionError(
            f"the ledger has no committed offset, or share-partition start offset, of {', '.join(missing)} at "
            f"{asked.way.source} that is asked for; nothing was set"
        )
    return chosen


def _share_answers(at: DeltaSnapshot, asked: Asked) -> list[Answer]:
    """What share-partition start offsets come to, by the same rule; nothing is known of moves of share groups."""
    commits = share_commits(at)
    way, flow = (asked.way.source, asked.way.target), asked.chosen.flow
    groups = {row["group_id"] for row in commits.to_pylist() if row["cluster"] == way[0]}
    if not groups:
        return []
    shown = {"checkpoints": commits}
    found = translate(at, way, flow=flow, overrides=shown).to_pylist()
    rows: list[Answer] = [{**row, "group_type": SHARE} for row in found if row["group_id"] in groups]
    outputs = {group: asked.outputs[group] for group in groups & asked.outputs.keys()}
    if not outputs:
        return rows
    found = answers_beside_outputs(at, asked.way, rows, outputs, flow=flow, overrides=shown)
    return [{**row, "group_type": SHARE} for row in found]


def _earlier_attempts(context: Context) -> EarlierAttempts:
    """What attempts under the operation id came to."""
    operation_id = context.why.operation_id
    return (
        NO_ATTEMPTS if operation_id is None else EarlierAttempts.of_rows(context.operations_of(operation_id))
    )


# Repeats ------------------------------------------------------------------------------------------
# What each group would read again, compared with what is allowed.
#
# It is exact where commits stand still. What a group has read since its commits were recorded last nobody
# knows: it is read again as well, so then it is at least so much.


_NAMED = 3
AT_LEAST = "at_least"
"""What a number of repeats is where there may be more."""


@dataclass(frozen=True, slots=True)
class CommitsRead:
    """When somebody recorded the groups of a cluster last (None: nobody ever did), and how long before it was lost.

    `unseen_seconds` None: no instant was asked about.
    """

    at_ms: int | None
    unseen_seconds: float | None

    def is_fresh(self, fresh_seconds: float) -> bool:
        return (
            self.at_ms is not None
            and self.unseen_seconds is not None
            and self.unseen_seconds <= fresh_seconds
        )


def repeat_figures(
    answers: Iterable[Answer], read: CommitsRead | None = None, *, fresh_seconds: float = 0.0
) -> Iterator[Figure]:
    """Of each group its records behind the places that it has read; unknown where it is of one of its partitions.

    `read` None: the commits stand still. Where they were not recorded lately there may be more, and where nobody can
    place what a group has read.
    """
    is_old = read is not None and not read.is_fresh(fresh_seconds)
    by_name: dict[str, list[Answer]] = defaultdict(list)
    for row in answers:
        if row["group_id"] is not None:
            by_name[row["group_id"]].append(row)
    for group, rows in sorted(by_name.items()):
        found = [row["repeated"] for row in rows]
        is_open = is_old or may_repeat_more(rows)
        total = None if None in found else sum(number for number in found if number is not None)
        value = (total or None) if is_open else total
        yield Figure(Objective.MAX_REPEATS_PER_GROUP, value, f"group {group!r}", is_at_least=is_open)


def repeat_forecast(places: Sequence[Answer], read: CommitsRead | None) -> dict[str, Any]:
    """Of all groups together, None where a part is unknown. `read` None: groups are stopped, and read again then.

    It says when commits were read where more may have been committed since.
    """
    found = {
        "repeated": repeated_of(places),
        "repeated_bound": None if read is None and not may_repeat_more(places) else AT_LEAST,
    }
    if read is None:
        return found
    return {**found, "commits_read_at_ms": read.at_ms, "commits_unseen_seconds": read.unseen_seconds}


def repeat_words(forecast: Answer) -> str:
    """How many records are read again."""
    repeated = forecast["repeated"]
    if repeated is None:
        return "an unknown number of records"
    bound = "" if forecast["repeated_bound"] is None else "at least "
    return f"{bound}{counted(repeated, 'record')}"


def commits_age(forecast: Answer) -> str:
    """In brackets, what these are counted from; empty where commits are read again before groups move."""
    if forecast["repeated_bound"] is None or "commits_read_at_ms" not in forecast:
        return ""
    at_ms, unseen = forecast["commits_read_at_ms"], forecast["commits_unseen_seconds"]
    if at_ms is None:
        return " (commits were never recorded)"
    before = "" if unseen is None else f", {duration(unseen)} unseen"
    return f" (commits last recorded {instant(at_ms)}{before})"


def require_few_repeats(answers: Sequence[Answer], allowed: Objectives, *, way: tuple[str, str]) -> None:
    """Raise `PreconditionError` where groups would read more again than is allowed, with the places that make most."""
    found = [
        f"{words} ({'; '.join(_most(answers, figure.of))})"
        for figure in repeat_figures(answers)
        for _, words in objections(allowed, [figure])
    ]
    if found:
        raise PreconditionError(
            "groups would read records again, no offset was set:",
            *(f"  {words}" for words in found),
            f"Where the status is extras, records that are at {way[1]} alone lie unread in front: mirror-ledger query "
            f"one_sided_records --param from_cluster={way[0]} --param to_cluster={way[1]}. To set offsets all the "
            "same: --accept objective",
        )


def _most(answers: Iterable[Answer], group: str) -> list[str]:
    rows = [row for row in answers if f"group {row['group_id']!r}" == group and row["repeated"] != 0]
    rows.sort(key=lambda row: (row["repeated"] is not None, -(row["repeated"] or 0)))
    named = [
        f"{row['target_topic'] or row['source_topic']} partition {row['source_partition']}: "
        f"{'unknown' if row['repeated'] is None else counted(row['repeated'], 'record')}, status {row['status']}"
        for row in rows[:_NAMED]
    ]
    return named if len(rows) <= _NAMED else [*named, f"and {len(rows) - _NAMED} more"]
