"""Setting groups' offsets at a target: what is to be set, compared with what the target has, and the result.

Nothing is set for a group with members, in a topic that is not the one that the answer is about, or over a commit
that lies beyond the answer, unless the operator allows it. Partitions of a group are judged one by one, right before
they are set: a commit replaces only the one that it was judged by, and none lies below the log start that the target
has then. What is set is read back. Who does it again, after a crash too, comes to the same end: what is set already
stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ledger.errors import PreconditionError
from ledger.facts.group_offsets import CommitResult, IntendedCommit, OffsetsSet, OffsetsSetResult, SeenAppend
from ledger.facts.groups import SHARE, CommitRefusal, NewCommit, Place, Synced, has_members
from ledger.facts.roles import recorder_of
from ledger.facts.tables import CHECKPOINTS, GROUP_SYNCS
from ledger.offsets.statuses import TranslationStatus

if TYPE_CHECKING:  # who translates offsets would wait for these
    from ledger.facts.cuts import Cut
    from ledger.facts.operations import OperationContent, Why
    from ledger.facts.state import OperationLog
    from ledger.kafka.cluster import ClusterAdmin, GroupListing

NOT_RECORDED = "not_recorded"
UNREAD_ADVICE: Mapping[str, str] = {
    "hidden": "grant DESCRIBE on them to the mirror's principal where they come from",
    "unavailable": "bring their coordinator back, or move them by hand",
    "permitted_listed": "grant DESCRIBE on the cluster and all groups to the mirror's principal where they come from",
    NOT_RECORDED: "let a recorder read the groups where they come from (mirror-ledger record)",
}
"""Why it is not known where groups stand: of one group, or which groups there are (the last two). `NOT_RECORDED` is
also said of a group that was recorded once: the ledger has a commit of it, which may be an old one."""
OTHER_GROUPS = ""
"""Stands for the groups that were not listed, and has no name that a group can have."""


# Outcomes -----------------------------------------------------------------------------------------
# What an answer for a partition of a group comes to at the target: set, left as it is, or why not.


Answer = Mapping[str, Any]
"""A row of `offset_translation`; of a share group it has the `group_type`, and says what its share-partition start
offset comes to."""
WITHOUT_OFFSET = (
    TranslationStatus.NO_MAP,
    TranslationStatus.OTHER_INCARNATION,
    TranslationStatus.OTHER_TARGET_INCARNATION,
)
"""Statuses that have no offset: accepted by name they leave the partition to `auto.offset.reset`, or to what the group
has committed at the target."""


class Outcome(StrEnum):
    """What became of a partition of a group. The first that applies, in this order, is reported."""

    NO_ANSWER = "no_answer"
    """The translation has no target offset."""
    LEFT = "left"
    """The same, and accepted. Its consumers begin by `auto.offset.reset`, or where the group has committed there."""
    SEVERAL_ANSWERS = "several_answers"
    """The answer of another topic for the same place at the target has another offset."""
    NOT_ACCEPTED = "not_accepted"
    """A reset file holds the status, or the absence of the commit, with `--accept` only."""
    GROUP_DENIED = "group_denied"
    """The group is not shown to the mirror's principal, or may not be committed for."""
    OTHER_TYPE = "other_type"
    """The target has a group of that name, and of the two one is a share group: Kafka has one namespace."""
    HAS_MEMBERS = "has_members"
    """Consumers of the group are at work at the target: they would not notice, and commit over it."""
    OTHER_TOPIC = "other_topic"
    """The target topic was deleted (the flow copies it again), has another topic id than the answer, or is not
    shown."""
    ALREADY_SET = "already_set"
    """The offset is committed already."""
    READS_ON = "reads_on"
    """An apply that is continued had set it before, and the group has read on since."""
    NEWER = "newer"
    """The group has committed beyond the answer at the target: it has read there since."""
    STILL_READING = "still_reading"
    """The group has members where it leaves, its commits moved there while they were watched, or stand elsewhere
    than the ledger knows."""
    TO_BE_SET = "to_be_set"
    """With `--dry-run`: it would be set."""
    TOPIC_DENIED = "topic_denied"
    """The mirror's principal may not read the topic."""
    REFUSED = "refused"
    """The target refused it for another reason."""
    NOT_KEPT = "not_kept"
    """Another offset was read back."""
    MOVED_BY_OTHERS = "moved_by_others"
    """A commit left what was set, or came again and again while it was to be set, and the group has no members: a
    consumer that assigns itself partitions is at work at the target."""
    SET = "set"
    """Done."""

    @property
    def is_as_wanted(self) -> bool:
        return self in (
            Outcome.SET,
            Outcome.ALREADY_SET,
            Outcome.READS_ON,
            Outcome.TO_BE_SET,
            Outcome.LEFT,
        )


ADVICE: Mapping[Outcome, str] = {
    Outcome.NO_ANSWER: "choose the place by hand, or --accept its status to leave it to auto.offset.reset",
    Outcome.SEVERAL_ANSWERS: "choose one by --topic",
    Outcome.NOT_ACCEPTED: "--accept its status, that of its absence, outputs_not_copied where outputs lack, and "
    "not_recorded where nobody records the group any more",
    Outcome.GROUP_DENIED: "grant READ on the group to the mirror's principal at the target",
    Outcome.OTHER_TYPE: "delete the group of that name at the target, which is of another type",
    Outcome.HAS_MEMBERS: "stop the group's consumers at the target",
    Outcome.OTHER_TOPIC: "the topic of that id is not at the target, or not shown to the mirror's principal",
    Outcome.NEWER: "the group has read on at the target: --accept newer takes it back",
    Outcome.TOPIC_DENIED: "grant READ on the topic to the mirror's principal at the target",
    Outcome.REFUSED: "the target's log says why",
    Outcome.STILL_READING: "stop its consumers where it leaves, those that assign themselves partitions too",
    Outcome.MOVED_BY_OTHERS: "stop the consumer at the target that assigns itself partitions, and set it again",
    Outcome.NOT_KEPT: "somebody else commits for the group: ask again",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A partition of a group: the answer, the commit that the target had, and what became of it."""

    answer: Answer
    former: int | None
    outcome: Outcome

    @property
    def group_id(self) -> str:
        return str(self.answer["group_id"])

    @property
    def is_of_share_group(self) -> bool:
        return self.answer.get("group_type") == SHARE

    @property
    def target(self) -> tuple[str, int]:
        return self.answer["target_topic"], self.answer["target_partition"]

    @property
    def place(self) -> Place:
        return self.group_id, *self.target

    @property
    def words(self) -> str:
        topic, partition = self.target
        if topic is None:
            topic, partition = self.answer["source_topic"], self.answer["source_partition"]
        return f"{self.group_id!r} at {topic} partition {partition}"

    @property
    def commit(self) -> NewCommit:
        topic, partition = self.target
        offset, metadata = self.answer["target_offset"], self.answer["metadata"]
        return NewCommit(topic, partition, offset, metadata, replaces=(self.former,))


@dataclass(frozen=True, slots=True)
class Choice:
    """What the operator allows: statuses by name, and to overwrite commits that lie beyond the answer."""

    accepted: Collection[str] = ()
    overwrite_newer: bool = False


def repeated_of(answers: Iterable[Answer]) -> int | None:
    """How many records are read again at all places that there are; None: of one of them nobody knows."""
    found = [row.get("repeated") for row in answers if row["target_offset"] is not None]
    return None if None in found else sum(number for number in found if number is not None)


def may_repeat_more(answers: Iterable[Answer]) -> bool:
    """Whether a group may have read records that nobody can place at the target: these are not among its repeats.

    So it is also where a status may hide that, which is reported before it.
    """
    return any(row["status"] in _MAY_BE_UNPLACED for row in answers)


_MAY_BE_UNPLACED = frozenset(
    {TranslationStatus.LOST, TranslationStatus.EXPIRED_ON_TARGET, TranslationStatus.UNPLACED}
)


def place_of(answer: Answer) -> Place:
    return str(answer["group_id"]), answer["target_topic"], answer["target_partition"]


def by_group(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for one in settings:
        found.setdefault(one.group_id, []).append(one)
    return found


def result_row(one: Setting) -> dict[str, object]:
    """A row of the command's answer."""
    return {
        "group_id": one.group_id,
        "source_topic": one.answer["source_topic"],
        "source_partition": one.answer["source_partition"],
        "target_topic": one.answer["target_topic"],
        "target_partition": one.answer["target_partition"],
        "former_offset": one.former,
        "target_offset": one.answer["target_offset"],
        "status": one.answer["status"],
        "result": one.outcome.value,
    }


# Beside outputs -----------------------------------------------------------------------------------
# Commits of applications that write what they read: none may run ahead of its outputs where it continues.
#
# A group that continues at its last commit takes all below it for done. Where the records that it wrote for
# that were not copied, they are nowhere any more: it has to continue at an earlier commit, and write them
# again.


NOT_COPIED = "outputs_not_copied"
"""What is accepted by name of a commit beside which no copied outputs are known."""
OutputsOfGroups = Mapping[str, Sequence[str]]
"""By group of a declared application the topics that it writes to, as they are called where it runs."""
NO_OUTPUTS: OutputsOfGroups = MappingProxyType({})


class OutputsStatus(StrEnum):
    """Of the commit that an answer is about: whether what it stands for was copied."""

    COPIED = "copied"
    EARLIER_COMMIT = "earlier_commit"  # of the group's last one (`last_committed_offset`) not all was
    NOT_COPIED = "not_copied"  # the answer is about the last commit: no earlier one is known to be better


_GRAIN = ("group_id", "source_topic", "source_partition", "target_topic", "target_partition")


def beside_outputs(
    answers: Sequence[Answer], earlier: Sequence[Answer], outputs: OutputsOfGroups
) -> list[dict[str, object]]:
    """The answers with columns `outputs` and `last_committed_offset`, null for groups of no declared application.

    `earlier`: answers about the commits of these groups as they stood when all that had been written was copied; of a
    group of which no such time is known it has none.
    """
    by_place = {answer_key(row): row for row in earlier}
    unset: dict[str, object] = {"outputs": None, "last_committed_offset": None}
    return [
        {**row, **unset}
        if row["group_id"] not in outputs or row["committed_offset"] is None
        else {**unset, **_judged(row, by_place.get(answer_key(row)))}
        for row in answers
    ]


def last_commit(answer: Answer) -> int | None:
    """The group's last commit, whichever the answer is about."""
    last: int | None = answer.get("last_committed_offset")
    committed: int | None = answer["committed_offset"]
    return committed if last is None else last


def answer_key(row: Answer) -> tuple[object, ...]:
    """Which partitions of which group at both sides an answer is about."""
    return tuple(row[name] for name in _GRAIN)


def _judged(row: Answer, then: Answer | None) -> Answer:
    """A group that was set back since stays there: below the commit of then all was copied.

    A commit that has no place, of an incarnation of its topic that is no more, says nothing of the last one.
    """
    if then is None or then["committed_offset"] is None or then["target_offset"] is None:
        return {**row, "outputs": OutputsStatus.NOT_COPIED}
    if then["committed_offset"] >= row["committed_offset"]:
        return {**row, "outputs": OutputsStatus.COPIED}
    return {
        **then,
        "absence": row["absence"],
        "absent_since_ms": row["absent_since_ms"],
        "repeated": _repeated(row, then),
        "outputs": OutputsStatus.EARLIER_COMMIT,
        "last_committed_offset": row["committed_offset"],
    }


def _repeated(row: Answer, then: Answer) -> int | None:
    """What lies between both places was read, and is read again; markers among it count as records."""
    known = (row["target_offset"], then["target_offset"], then.get("repeated"))
    if None in known:
        return None
    return int(then["repeated"]) + max(int(row["target_offset"]) - int(then["target_offset"]), 0)


ACCEPTABLE: tuple[TranslationStatus, ...] = (
    TranslationStatus.LOST,
    TranslationStatus.EXPIRED_ON_TARGET,
    TranslationStatus.AHEAD,
    TranslationStatus.GONE,
    TranslationStatus.HIDDEN,
    TranslationStatus.NO_COMMIT,
)
"""Statuses with an offset that a reset file holds only when they are accepted by name: something was lost, may not be
what it seems, or a group begins where it never was. All others that have an offset land where nothing is skipped that
the target has."""


def oddities(row: Mapping[str, Any]) -> frozenset[str]:
    """What is to be accepted about a row: its status, that its commit is not there any more, and that something which
    it has not read is not there any more, also where another status comes first; that outputs were not copied, and that
    nobody keeps its group recorded."""
    outputs, is_recorded = row.get("outputs"), row.get("is_recorded")
    return _oddities(row["status"], row["absence"], outputs, is_recorded, bool(row.get("expired")))


@cache  # of millions of rows all but a few are alike
def _oddities(
    status: str, absence: str | None, outputs: str | None, is_recorded: bool | None, has_expired: bool
) -> frozenset[str]:
    found = {str(one) for one in ACCEPTABLE if one in (status, absence)}
    found |= {NOT_COPIED} if outputs == OutputsStatus.NOT_COPIED else set()
    found |= {NOT_RECORDED} if is_recorded is False else set()
    return frozenset(found | ({str(TranslationStatus.EXPIRED_ON_TARGET)} if has_expired else set()))


def synced_before(rows: Iterable[Mapping[str, Any]]) -> dict[Place, Synced]:
    """From rows of `group_syncs` of one flow, in the order of recording."""
    found: dict[Place, Synced] = {}
    for row in rows:
        place = place_of(row)
        found[place] = found.get(place, Synced()).after(
            row["event"], row["target_offset"], row["recorded_at_ms"]
        )
    return found


# Receipts -----------------------------------------------------------------------------------------
# What is recorded of groups whose offsets are set: where they come from, what is about to be, what became
# of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCommit:
    """What is known of a group's commit on a partition of the source, beside its offset.

    `made_after_ms`: when the group was last seen with another one, or with none. None: unknown.
    """

    topic_id: str | None
    leader_epoch: int | None = None
    made_after_ms: int | None = None


def answered_commit(answer: Answer, last: SourceCommit) -> SourceCommit:
    """What is known of the commit that an answer is about: of one before the last one not when it was made."""
    is_earlier = answer.get("last_committed_offset") is not None
    return SourceCommit(topic_id=last.topic_id) if is_earlier else last


@dataclass(frozen=True)
class SourceCommits:
    """Where groups come from: the cluster, and by group, topic and partition the last known commit there."""

    cluster: str
    last: Mapping[tuple[str, str, int], SourceCommit]

    @cached_property
    def _topic_ids(self) -> Mapping[tuple[str, str], set[str | None]]:
        """By group and topic the ids that its commits there are of."""
        found: dict[tuple[str, str], set[str | None]] = defaultdict(set)
        for (group, topic, _), one in self.last.items():
            found[group, topic].add(one.topic_id)
        return found

    def of(self, answer: Answer) -> SourceCommit:
        """The commit that an answer is about; without one its topic id is that of the group's others on the topic."""
        group, topic = str(answer["group_id"]), answer["source_topic"]
        if answer["committed_offset"] is not None:
            return answered_commit(answer, self.last[group, topic, answer["source_partition"]])
        others = self._topic_ids.get((group, topic), set())
        return SourceCommit(topic_id=next(iter(others)) if len(others) == 1 else None)


@dataclass(frozen=True, slots=True)
class Basis:
    """What is recorded of where offsets come from: the cut of the answers, and what was left.

    `flow`: the one whose map answered; None: all between two clusters. `seen`: what of the cut tells these moves from
    what comes behind them.
    """

    flow: str | None
    cut: str
    left: SourceCommits
    seen: tuple[SeenAppend, ...]


def seen_at(cut: Cut, target_cluster: str) -> tuple[SeenAppend, ...]:
    """What of a cut tells a move from what comes behind it: where groups stood at the target, and were synced."""
    found = [
        *(one for one in cut.of_table(CHECKPOINTS.name) if one.writer == recorder_of(target_cluster)),
        *cut.of_table(GROUP_SYNCS.name),
    ]
    return tuple(
        SeenAppend(table=one.table, writer=one.writer, epoch=one.epoch, round=one.round) for one in found
    )


def intentions(settings: Sequence[Setting], *, target_cluster: str, basis: Basis) -> list[OffsetsSet]:
    """One for each group of which something is about to be set."""
    to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
    return [
        OffsetsSet(
            group=group,
            source_cluster=basis.left.cluster,
            target_cluster=target_cluster,
            group_type=SHARE if of_group[0].is_of_share_group else None,
            cut=basis.cut,
            commits=tuple(_intended(one, basis.left.of(one.answer)) for one in of_group),
            seen=basis.seen,
        )
        for group, of_group in by_group(to_set).items()
    ]


def _intended(one: Setting, left: SourceCommit) -> IntendedCommit:
    return IntendedCommit(
        topic=one.answer["target_topic"],
        topic_id=one.answer["target_topic_id"],
        partition=one.answer["target_partition"],
        former=one.former,
        to=one.answer["target_offset"],
        source_topic=one.answer["source_topic"],
        source_topic_id=left.topic_id,
        source_partition=one.answer["source_partition"],
        source_offset=one.answer["committed_offset"],
        source_leader_epoch=left.leader_epoch,
        source_made_after_ms=left.made_after_ms,
        status=one.answer["status"],
    )


def results(settings: Sequence[Setting]) -> list[OffsetsSetResult]:
    """One for each group: what became of each of its partitions."""
    return [
        OffsetsSetResult(group=group, results=tuple(map(_result, of_group)))
        for group, of_group in by_group(settings).items()
    ]


def _result(one: Setting) -> CommitResult:
    return CommitResult(
        source_topic=one.answer["source_topic"],
        source_partition=one.answer["source_partition"],
        topic=one.answer["target_topic"],
        partition=one.answer["target_partition"],
        former=one.former,
        to=one.answer["target_offset"],
        result=one.outcome.value,
    )


@dataclass(frozen=True, slots=True)
class EarlierAttempts:
    """What attempts under one operation id came to, by place: `begun` is what was about to be set and has no result,
    `done` what was set."""

    begun: Mapping[Place, int]
    done: Mapping[Place, int]

    @classmethod
    def of_rows(cls, rows: Iterable[Answer]) -> EarlierAttempts:
        """From rows of `operations` of that operation, in the order of their stamps."""
        begun: dict[Place, int] = {}
        done: dict[Place, int] = {}
        for row in rows:
            if row["kind"] == OffsetsSet.kind:
                intended = OffsetsSet.of_row(row)
                begun |= {(intended.group, one.topic, one.partition): one.to for one in intended.commits}
            elif row["kind"] == OffsetsSetResult.kind:
                done_then = OffsetsSetResult.of_row(row)
                for result in done_then.results:
                    if result.topic is None or result.partition is None:
                        continue
                    place = done_then.group, result.topic, result.partition
                    begun.pop(place, None)
                    if result.result == Outcome.SET and result.to is not None:
                        done[place] = result.to
                    elif result.result in (Outcome.NOT_KEPT, Outcome.MOVED_BY_OTHERS):
                        done.pop(place, None)
        return cls(begun, done)


NO_ATTEMPTS = EarlierAttempts({}, {})


# Offset setting -----------------------------------------------------------------------------------


_GROUPS_AT_ONCE = 100
_SET_AT_ONCE = 25
"""Groups; who is followed by another process meanwhile sets no others."""


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """What the target tells of groups: listings, commits, topic ids; `denied`: groups that it does not show."""

    listed: Mapping[str, GroupListing]
    denied: frozenset[str]
    topic_ids: Mapping[str, str]
    committed: Mapping[Place, int]

    @classmethod
    def read(
        cls, target: ClusterAdmin, groups: Collection[str], share_groups: Collection[str] = ()
    ) -> TargetGroups:
        """Of groups that commit, and of share groups."""
        wanted = {*groups, *share_groups}
        listed = {group.group_id: group for group in target.groups() if group.group_id in wanted}
        unlisted = sorted(wanted - listed.keys())
        topic_ids = {name: topic.topic_id for name, topic in target.topics().items()}
        sharing = {name for name, group in listed.items() if group.group_type == SHARE}
        committing = [group for name, group in listed.items() if name in groups and name not in sharing]
        commits = target.commits(committing, topic_ids=topic_ids) if committing else []
        committed = {(one.group_id, one.topic, one.partition): one.committed_offset for one in commits}
        started = _share_offsets(target, sorted(sharing & set(share_groups)))
        return cls(
            listed,
            frozenset(unlisted) - target.dead_groups(unlisted),
            topic_ids,
            {place: offset for place, offset in {**committed, **started}.items() if offset is not None},
        )

    def is_of_other_type(self, one: Setting) -> bool:
        """Whether the group at the target, if there is one, takes no offsets of this kind."""
        listed = self.listed.get(one.group_id)
        if listed is None or listed.group_type is None:
            return False
        return self.is_share_group(one.group_id) is not one.is_of_share_group

    def is_share_group(self, group: str) -> bool:
        return group in self.listed and self.listed[group].group_type == SHARE

    def has_members(self, group: str) -> bool:
        """Also where the cluster does not say."""
        return group in self.listed and has_members(self.listed[group].group_state) is not False


def _share_offsets(target: ClusterAdmin, groups: Sequence[str]) -> dict[Place, int | None]:
    if not groups:
        return {}
    answer = target.share_offsets(groups)
    for group, why in answer.refused.items():
        raise PreconditionError(
            f"cluster {target.alias} does not tell the share-partition start offsets of group {group}: "
            f"{why.reason}; nothing was set"
        )
    return {(one.group_id, one.topic, one.partition): one.start_offset for one in answer.read}


def not_below_log_start(answers: Sequence[Answer], target: ClusterAdmin) -> list[Answer]:
    """The answers, where the log of the target begins behind one with that log start: what lay before it was deleted.

    Such an answer has to be accepted as one that the ledger knows as `expired_on_target`.
    """
    places = {place_of(row)[1:] for row in answers if row["target_offset"] is not None}
    ends = target.ends(sorted(places)) if places else {}

    def now(row: Answer) -> Answer:
        found = ends.get((row["target_topic"], row["target_partition"]))
        if row["target_offset"] is None or found is None or row["target_offset"] >= found.log_start:
            return row
        below = found.log_start - row["target_offset"]
        status = row["status"] if row["status"] in _FIRST else str(TranslationStatus.EXPIRED_ON_TARGET)
        expired = (row.get("expired") or 0) + below
        return {**row, "target_offset": found.log_start, "status": status, "expired": expired}

    return [now(row) for row in answers]


_FIRST = (TranslationStatus.BEFORE_FIRST, TranslationStatus.LOST)
"""Statuses that come before `expired_on_target`, and are to be accepted beside it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator allows; what has to be accepted about an answer say its `oddities`.

    `synced`: what drivers have committed for groups at the target, which tells of nobody who has read there.
    """

    choice: Choice
    synced: Mapping[Place, Collection[int]] = field(default_factory=dict)

    def judged(self, answers: Iterable[Answer], target: TargetGroups) -> list[Setting]:
        """What is to be set, and why the rest is not."""
        answers = list(answers)
        offsets: dict[Place, set[int]] = defaultdict(set)
        for answer in answers:
            if answer["target_offset"] is not None:
                offsets[place_of(answer)].add(answer["target_offset"])
        several = {place for place, found in offsets.items() if len(found) > 1}
        found = []
        for answer in answers:
            former = target.committed.get(place_of(answer))
            is_synced = former in self.synced.get(place_of(answer), ())
            lacking = oddities(answer) - set(self.choice.accepted)
            if lacking == _EXPIRED and former == answer["target_offset"] and not is_synced:
                lacking = frozenset()  # it stands there: somebody has accepted it
            one = _planned(Setting(answer, former, Outcome.TO_BE_SET), target, self.choice, lacking, several)
            found.append(_unread(one) if is_synced else one)
        return found


_EXPIRED = {str(TranslationStatus.EXPIRED_ON_TARGET)}


def _unread(one: Setting) -> Setting:
    """What a driver has committed is set all the same: beyond the answer, where the group was put back since, and at
    the answer, so that it is recorded that the group has moved and not only been followed."""
    is_there = one.outcome in (Outcome.NEWER, Outcome.ALREADY_SET)
    return replace(one, outcome=Outcome.TO_BE_SET) if is_there else one


def _planned(
    one: Setting, target: TargetGroups, choice: Choice, lacking: Collection[str], several: Collection[Place]
) -> Setting:
    """`lacking`: what is to be accepted about the answer, and is not."""
    answer, former = one.answer, one.former
    group, offset = one.group_id, answer["target_offset"]
    if offset is None:
        outcome = Outcome.LEFT if answer["status"] in choice.accepted else Outcome.NO_ANSWER
    elif one.place in several:
        outcome = Outcome.SEVERAL_ANSWERS
    elif lacking:
        outcome = Outcome.NOT_ACCEPTED
    elif group in target.denied:
        outcome = Outcome.GROUP_DENIED
    elif target.is_of_other_type(one):
        outcome = Outcome.OTHER_TYPE
    elif target.has_members(group):
        outcome = Outcome.HAS_MEMBERS
    elif target.topic_ids.get(answer["target_topic"]) != answer["target_topic_id"]:
        outcome = Outcome.OTHER_TOPIC
    elif former == offset:
        outcome = Outcome.ALREADY_SET
    elif former is not None and former > offset and not choice.overwrite_newer:
        outcome = Outcome.NEWER
    else:
        outcome = Outcome.TO_BE_SET
    return replace(one, outcome=outcome)


# Setting ----------------------------------------------------------------------------------------


def nothing_taken_over() -> None:
    """Nobody else could have taken over."""


def set_and_record(
    target: ClusterAdmin,
    settings: Sequence[Setting],
    operations: OperationLog,
    basis: Basis,
    why: Why,
    rules: Rules,
    *,
    attempts: EarlierAttempts = NO_ATTEMPTS,
    require_own: Callable[[], None] = nothing_taken_over,
) -> tuple[str | None, list[Setting]]:
    """Set what is to be set; returns the operation id, None when that is nothing, and what became of each partition.

    Of every hundred groups it is recorded what is about to be set, and behind it what became of it, under one operation
    id: a new one unless given. So where there is an intention without a result, the target may have either commit. With
    what was begun under the given id and has no result (`attempts`), it gets its result now where it was set.
    `require_own`: asked before each request, raises where another process has taken over.
    """
    from ledger.store.session import random_id

    settings = [_finished(one, attempts.begun) for one in settings]
    if not any(one.outcome in (Outcome.TO_BE_SET, Outcome.SET) for one in settings):
        return None, list(settings)
    operation_id = why.operation_id or random_id()
    why = replace(why, operation_id=operation_id)
    setting = _Groups(target, operations, basis, why, rules, attempts, require_own)
    done: list[Setting] = []
    for part in _in_parts(settings):
        done += setting.carry_out(part)
    return operation_id, done


def _finished(one: Setting, begun: Mapping[Place, int]) -> Setting:
    """What an earlier attempt had set, and had not recorded yet."""
    if one.outcome is Outcome.ALREADY_SET and begun.get(one.place) == one.answer["target_offset"]:
        return replace(one, outcome=Outcome.SET)
    return one


def reading_on(one: Setting, attempts: EarlierAttempts) -> Setting:
    """Where an earlier attempt had put it, and the group has committed that or more since: it is where it shall be.
    What it had begun alone was put where the group stands just there."""
    put, begun = attempts.done.get(one.place), attempts.begun.get(one.place)
    if one.outcome is Outcome.HAS_MEMBERS and begun is not None and begun == one.former:
        return replace(one, answer={**one.answer, "target_offset": begun}, outcome=Outcome.ALREADY_SET)
    if (
        put is not None
        and one.outcome is Outcome.TO_BE_SET
        and put == one.former == one.answer["target_offset"]
    ):
        return replace(one, outcome=Outcome.ALREADY_SET)
    is_hindered = one.outcome in (Outcome.NEWER, Outcome.HAS_MEMBERS)
    if put is None or not is_hindered or one.former is None or one.former < put:
        return one
    return replace(one, answer={**one.answer, "target_offset": put}, outcome=Outcome.READS_ON)


def _in_parts(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Whole groups, so many that little is unknown when the target fails."""
    groups = list(by_group(settings).values())
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        yield [one for group in groups[start : start + _GROUPS_AT_ONCE] for one in group]


@dataclass(frozen=True, slots=True)
class _Groups:
    target: ClusterAdmin
    operations: OperationLog
    basis: Basis
    why: Why
    rules: Rules
    attempts: EarlierAttempts
    require_own: Callable[[], None]

    def carry_out(self, settings: Sequence[Setting]) -> list[Setting]:
        """Set what is to be set, and read all of it back; all others stay as they are. What somebody has committed
        since it was judged is judged by that, once."""
        settings = self._above_log_starts(settings)
        self._intend(settings)
        refused = self._commit(settings)
        if moved := {place for place, why in refused.items() if why is CommitRefusal.MOVED}:
            settings = self._judged_again(settings, moved)
            again = [one for one in settings if one.place in moved]
            self._intend(again)
            others = {place: why for place, why in refused.items() if place not in moved}
            refused = {**others, **self._commit(again)}
        done = self._read_back(settings, refused)
        self._record(results(done))
        return done

    def _intend(self, settings: Sequence[Setting]) -> None:
        self._record(intentions(settings, target_cluster=self.target.alias, basis=self.basis))

    def _record(self, contents: Sequence[OperationContent]) -> None:
        if contents:
            self.operations.record_parts(contents, self.why, flow=self.basis.flow)

    def _above_log_starts(self, settings: Sequence[Setting]) -> list[Setting]:
        """What lies below the log start by now is judged again, as an answer that has expired there."""
        to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
        answers = not_below_log_start([one.answer for one in to_set], self.target)
        expired = {one.place for one, now in zip(to_set, answers, strict=True) if now is not one.answer}
        return self._judged_again(settings, expired) if expired else list(settings)

    def _commit(self, settings: Sequence[Setting]) -> dict[Place, CommitRefusal]:
        """What was refused. Many groups that commit are set at once, share groups one after the other."""
        to_set = by_group([one for one in settings if one.outcome is Outcome.TO_BE_SET])
        shared: dict[str, list[NewCommit]] = {}
        committing: dict[str, list[NewCommit]] = {}
        for group, of_group in sorted(to_set.items()):
            of_kind = shared if of_group[0].is_of_share_group else committing
            of_kind[group] = [one.commit for one in of_group]
        answers: dict[str, dict[tuple[str, int], CommitRefusal]] = {}
        names = list(committing)
        for start in range(0, len(names), _SET_AT_ONCE):
            self.require_own()
            some = {group: committing[group] for group in names[start : start + _SET_AT_ONCE]}
            answers |= self.target.set_commits_of_groups(some)
        for group, offsets in shared.items():
            self.require_own()
            answers[group] = self.target.set_share_offsets(group, offsets)
        return {
            (group, *at): refusal for group, refused in answers.items() for at, refusal in refused.items()
        }

    def _judged_again(self, settings: Sequence[Setting], places: Collection[Place]) -> list[Setting]:
        """Of these places, by what the target has now."""
        about = [one for one in settings if one.outcome is Outcome.TO_BE_SET and one.place in places]
        there = _read(self.target, about)
        answers = not_below_log_start([one.answer for one in about], self.target)
        judged = [reading_on(one, self.attempts) for one in self.rules.judged(answers, there)]
        now = {id(one): found for one, found in zip(about, judged, strict=True)}
        return [now.get(id(one), one) for one in settings]

    def _read_back(
        self, settings: Sequence[Setting], refused: Mapping[Place, CommitRefusal]
    ) -> list[Setting]:
        to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
        there = _read(self.target, to_set) if to_set else None
        return [
            replace(one, outcome=_became(one, refused.get(one.place), there))
            if one.outcome is Outcome.TO_BE_SET and there is not None
            else one
            for one in settings
        ]


def _read(target: ClusterAdmin, settings: Sequence[Setting]) -> TargetGroups:
    """What the target tells of their groups now."""
    shared = {one.group_id for one in settings if one.is_of_share_group}
    return TargetGroups.read(target, {one.group_id for one in settings} - shared, shared)


_REFUSED = {
    CommitRefusal.GROUP_DENIED: Outcome.GROUP_DENIED,
    CommitRefusal.TOPIC_DENIED: Outcome.TOPIC_DENIED,
    CommitRefusal.HAS_MEMBERS: Outcome.HAS_MEMBERS,
    CommitRefusal.MOVED: Outcome.MOVED_BY_OTHERS,
    CommitRefusal.NO_TOPIC: Outcome.OTHER_TOPIC,
    CommitRefusal.OTHER: Outcome.REFUSED,
}


def _became(one: Setting, refusal: CommitRefusal | None, there: TargetGroups) -> Outcome:
    topic, partition = one.target
    if refusal is not None:
        return _REFUSED[refusal]
    if there.topic_ids.get(topic) != one.answer["target_topic_id"]:
        return Outcome.OTHER_TOPIC
    is_kept = there.committed.get((one.group_id, topic, partition)) == one.answer["target_offset"]
    return Outcome.SET if is_kept else Outcome.NOT_KEPT
